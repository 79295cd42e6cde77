// The keys of a menu (ARIA menu pattern): arrows, Home, End, and the first letter of an entry.

/** The entry to go to from entry `at` by a key; null for a key that is none of the menu's. */
export function moved({ key, altKey, ctrlKey, metaKey }, at, names) {
  const count = names.length;
  if (count === 0 || altKey || ctrlKey || metaKey) return null;
  const to = { ArrowDown: at + 1, ArrowUp: at < 0 ? -1 : at - 1, Home: 0, End: -1 }[key];
  if (to !== undefined) return (to + count) % count;
  if ([...key].length !== 1 || key === " ") return null;
  const begins = (name) => name.trim().toLowerCase().startsWith(key.toLowerCase());
  const step = names.findIndex((_, offset) => begins(names[(at + 1 + offset) % count]));
  return step < 0 ? null : (at + 1 + step) % count;
}
