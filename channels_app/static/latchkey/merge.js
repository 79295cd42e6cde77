// The reference merge of the native message protocol: how a delta changes a message.
// The same function as core/messages/merge.py; a property test compares the two.
// Total (a delta that does not fit changes nothing) and changes nothing in place. Objects are
// built by spreading and from entries, never by assignment: a key "__proto__" stays plain data.

const ADDRESS = ["message_id", "block_id", "thread_id", "metadata"];
const STEP = /([^.[\]]+)((?:\[[0-9]{1,4}\])*)(?:\.(?=.)|$)/sy;
const INDEX = /^[0-9]{1,4}$/;
// undefined is "absent" throughout: JSON has no such value.

/** The message after one more event with its id; `message` is undefined for the first. */
export function applyDelta(message, delta) {
  if (delta.delta !== true) return delta;
  const before = message ?? {};
  const keep = delta.type_change === true ? {} : asObject(before.props);
  const merged = { type: delta.type || before.type || null, props: mergeProps(keep, delta) };
  for (const name of ADDRESS) {
    const value = Object.hasOwn(delta, name) ? delta[name] : before[name];
    if (value !== undefined && value !== null) merged[name] = value;
  }
  return merged;
}

/** The steps of a path relative to props: names, and numbers for [n]; null when malformed. */
function parsePath(path) {
  const text = normalisePath(path);
  const steps = [];
  STEP.lastIndex = 0;
  while (STEP.lastIndex < text.length) {
    const match = STEP.exec(text);
    if (match === null) return null;
    steps.push(match[1], ...(match[2].match(/[0-9]+/g) ?? []).map(Number));
  }
  return steps;
}

/** The path relative to props: "props.a" is "a", "props" is "". */
function normalisePath(path) {
  if (path === "props") return "";
  return path.startsWith("props.") ? path.slice("props.".length) : path;
}

function mergeProps(props, delta) {
  const change = asObject(delta.props);
  const action = delta.delta_action || "append";
  const path = parsePath(typeof delta.delta_path === "string" ? delta.delta_path : "");
  if (path === null) return props;
  if (path.length > 0) {
    const value = valueAt(change, path);
    return value === undefined ? props : asObject(put(props, path, value, action));
  }
  if (action === "replace") return change;
  return combineEach(props, change, action);
}

function combineEach(old, change, action) {
  const changed = Object.entries(change).map(([name, value]) => [
    name,
    combine(own(old, name), value, action),
  ]);
  return { ...old, ...Object.fromEntries(changed) };
}

function combine(old, value, action) {
  if (action === "append") return append(old, value);
  if (action === "merge" && isObject(old) && isObject(value)) {
    return combineEach(old, value, action);
  }
  return value;
}

function append(old, value) {
  if (typeof old === "string" && typeof value === "string") return old + value;
  if (Array.isArray(old)) return Array.isArray(value) ? [...old, ...value] : [...old, value];
  return value;
}

function valueAt(container, path) {
  let value = container;
  for (const step of path) {
    if (Array.isArray(value)) value = value[listIndex(step) ?? value.length];
    else value = isObject(value) ? own(value, String(step)) : undefined;
  }
  return value;
}

function put(container, path, value, action) {
  if (path.length === 0) return combine(container, value, action);
  const [step, ...rest] = path;
  const parent = container ?? (typeof step === "number" ? [] : {});
  if (isObject(parent)) {
    const name = String(step);
    return { ...parent, [name]: put(own(parent, name), rest, value, action) };
  }
  const index = listIndex(step);
  if (!Array.isArray(parent) || index === null) return parent;
  const grown = [...parent];
  while (grown.length <= index) grown.push(null);
  grown[index] = put(grown[index], rest, value, action);
  return grown;
}

function listIndex(step) {
  if (typeof step === "number") return step;
  return INDEX.test(step) ? Number(step) : null;
}

function own(object, name) {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function asObject(value) {
  return isObject(value) ? value : {};
}
