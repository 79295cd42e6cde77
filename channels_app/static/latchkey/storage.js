// What the tab and the browser keep over a reload. Where they may not, or are full, this page keeps it.

export class PageStorage {
  #storage;
  #held = new Map();

  /** `storage()`: the browser's own, which throws where it is forbidden. */
  constructor(storage) {
    this.#storage = storage;
  }

  /** Whether a reload would find all of it. */
  get isStored() {
    return this.#held.size === 0;
  }

  getItem(key) {
    if (this.#held.has(key)) return this.#held.get(key);
    try {
      return this.#storage().getItem(key);
    } catch {
      return null;
    }
  }

  /** Keep a value; false where a reload would not find it. */
  setItem(key, value) {
    try {
      this.#storage().setItem(key, value);
      this.#held.delete(key);
      return true;
    } catch {
      this.#held.set(key, value);
      return false;
    }
  }

  removeItem(key) {
    this.#held.delete(key);
    try {
      this.#storage().removeItem(key);
    } catch {
      // It holds nothing.
    }
  }
}

export const tabStorage = new PageStorage(() => sessionStorage);
export const browserStorage = new PageStorage(() => localStorage);
