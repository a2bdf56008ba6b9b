import { hash } from 'node:crypto';
import { parseJson } from '../compliance/json.ts';

/**
 * SHA-256 (hex) of the canonical `{type, created, data}` of a delivery's body, or of its text if it is no JSON object. Tells a
 * redelivery from another event with the same id. Computed only for an id seen before: for every delivery it was a twentieth of
 * the cost of accepting.
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
 * JSON without spaces, and with each object's fields sorted by their UTF-16 code units, so that documents with the same value get
 * the same text. `value` comes from parseJson. Recurses, so its depth must be limited.
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
