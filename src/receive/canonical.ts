/**
 * JSON with every object's fields in the order of their UTF-16 code units and no blanks: two documents that
 * parse to the same value have one text. Takes what JSON.parse returns, and recurses: bound the depth before.
 * Integers beyond 2^53 are equal when their doubles are.
 */
export function canonicalJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) {
    let text = '[';
    for (let i = 0; i < value.length; i++) text += (i === 0 ? '' : ',') + canonicalJson(value[i]);
    return `${text}]`;
  }
  const object = value as Record<string, unknown>;
  let text = '';
  // Own fields only, `__proto__` among them where the document had one.
  for (const name of Object.keys(object).sort()) {
    text += `${text === '' ? '{' : ','}${JSON.stringify(name)}:${canonicalJson(object[name])}`;
  }
  return text === '' ? '{}' : `${text}}`;
}

/** Does `value` nest more than `limit` objects and arrays, itself the first? Level by level, so that no depth ends the stack. */
export function isDeeperThan(value: unknown, limit: number): boolean {
  let level = [value].filter(isContainer);
  for (let depth = 0; level.length > 0; depth++) {
    if (depth === limit) return true;
    const next: object[] = [];
    for (const container of level) {
      for (const name in container) {
        const child = (container as Record<string, unknown>)[name];
        if (isContainer(child)) next.push(child);
      }
    }
    level = next;
  }
  return false;
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
