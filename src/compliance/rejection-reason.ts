/** Where services put the words for people in an error. */
const WORDS = new Set(['title', 'detail', 'message', 'error', 'error_description', 'reason', 'description']);
const CODES = new Set(['code', 'type', 'field', 'path', 'param']);
const CODE = /^[a-z0-9_.-]{1,64}$/;

/** Names of what must not be shown; what stands under them is blotted out wherever it stands. */
const SECRET_NAME = /secret|token|key|password|credential/i;
/** No signing secret is shorter, and few words are longer. */
const LONG_RUN = /[\w+/=-]{16,}/g;

const MAX_REASON_LENGTH = 500;
const MAX_DEPTH = 5;

/**
 * Why a request was rejected, in the service's own words, where its answer may hold a secret as well: of JSON only the
 * fields that are for words and codes, of anything else the text, and in both nothing that could be a secret. What we asked
 * for ourselves is none. Null: it gives no reason. Pure.
 */
export function reasonIn(answer: string, asked: string): string | null {
  const words: string[] = [];
  const codes: string[] = [];
  const secrets: string[] = [];
  let document: unknown;
  try {
    document = JSON.parse(answer);
  } catch {
    // Of JSON that was cut short, or a web page, nothing tells what is for people.
    if (!/^\s*[<{[]/.test(answer)) words.push(answer);
  }
  const look = (value: unknown, name: string, depth: number) => {
    if (typeof value === 'string') {
      if (SECRET_NAME.test(name)) secrets.push(...(value === '' ? [] : [value]));
      else if (WORDS.has(name)) words.push(value);
      else if (CODES.has(name) && CODE.test(value)) codes.push(value);
    } else if (typeof value === 'object' && value !== null && depth < MAX_DEPTH) {
      const isList = Array.isArray(value);
      for (const [inner, each] of Object.entries(value)) look(each, isList ? name : inner, depth + 1);
    }
  };
  look(document, typeof document === 'string' ? 'message' : '', 0);
  const hidden = '[hidden]';
  const said = words.map((text) => text.replace(LONG_RUN, (run) => (asked.includes(run) ? run : hidden)));
  const named = [...said, ...codes].map((text) =>
    secrets.reduce((left, each) => left.replaceAll(each, hidden), text),
  );
  const text = [...new Set(named)].join('; ').replace(/\s+/g, ' ').trim();
  return text === '' ? null : text.slice(0, MAX_REASON_LENGTH);
}
