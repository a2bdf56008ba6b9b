import { hash } from 'node:crypto';
import { parseJson } from '../compliance/json.ts';

/**
 * SHA-256 (hex) of canonical `{type, created, data}` of a delivery's body, which shows a redelivery from another event with the
 * same id. If the body is no JSON object, of its text. Computed only for an id seen before: for every delivery it was a
 * twentieth of the cost of accepting.
 */
export function contentHashOf(body: string): string {
  return hash('sha256', comparable(body), 'hex');
}

function comparable(body: string): string {
  try {
    const { created, data, type } = parseJson(body) as Record<string, unknown>;
    return canonicalJson({ created: created ?? null, data: data ?? null, type: type ?? null });
  } catch {
    return body;
  }
}

/**
 * JSON without spaces, each object's fields in the order of their UTF-16 code units: documents that parse to the same value get
 * the same text. Takes what parseJson returns, and recurses: limit the depth before.
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
