// The page of reminders: it works without this. A person without a time zone gets the browser's.

import { call } from "./api.js";
import { sendTimeZone } from "./time-zone.js";

if (await sendTimeZone(call)) location.reload();
