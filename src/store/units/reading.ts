const onlyRead = new WeakSet<object>();

/** Marks a verb that only reads and may take long. On SQLite such verbs have their own thread, so that no delivery waits for them. */
export function reading<Verb extends (...args: never[]) => Promise<unknown>>(verb: Verb): Verb {
  onlyRead.add(verb);
  return verb;
}

export const isReading = (verb: object): boolean => onlyRead.has(verb);
