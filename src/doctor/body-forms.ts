/** A form that a body may have had when it was signed. */
export interface BodyForm {
  /** What has happened to the body since; null: nothing. */
  fault: BodyFault | null;
  /** For people: the form that the signature fits. */
  name: string;
  bytes: Uint8Array;
}

export type BodyFault = 'bom_added' | 'bom_removed' | 'body_reserialised';

const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/** Every distinct form once: the body as received, then what proxies are known to have made it from. */
export function bodyForms(received: Uint8Array): BodyForm[] {
  const bytes = Buffer.from(received);
  const forms = new Map<string, BodyForm>();
  const add = (fault: BodyForm['fault'], name: string, form: Buffer) => {
    const text = form.toString('latin1');
    if (!forms.has(text)) forms.set(text, { fault, name, bytes: form });
  };
  add(null, 'as received', bytes);
  const hasBom = bytes.subarray(0, BOM.length).equals(BOM);
  const bare = hasBom ? bytes.subarray(BOM.length) : bytes;
  if (hasBom) add('bom_added', 'without the byte order mark', bare);
  else add('bom_removed', 'with a byte order mark', Buffer.concat([BOM, bytes]));

  const text = bare.toString('utf8');
  if (!/^\s*[[{]/.test(text)) return [...forms.values()];
  const printed = (name: string, json: string) =>
    add('body_reserialised', `as JSON ${name}`, Buffer.from(json, 'utf8'));
  const compact = unescaped(respaced(text, ''));
  const spaced = unescaped(respaced(text, ' '));
  printed('without blanks', compact);
  printed('with ", " and ": "', spaced);
  printed('without blanks, non-ASCII as \\u', ascii(compact));
  printed('with ", " and ": ", non-ASCII as \\u', ascii(spaced));
  printed('without blanks, non-ASCII as \\u and slashes escaped', ascii(compact).replaceAll('/', '\\/'));
  return [...forms.values()];
}

// JSON always has the last quote. It is optional here because a search that cannot fail takes linear time on any text.
const TOKEN = /"(?:[^"\\]|\\.)*"?|\s+|[,:]/g;

/** JSON with `blank` behind each comma and colon, and no other. Digits and the order of keys stay, unlike after a parse. */
function respaced(json: string, blank: string): string {
  return json.replace(TOKEN, (token) => {
    if (token.startsWith('"')) return token;
    return token === ',' || token === ':' ? `${token}${blank}` : '';
  });
}

/** Writes what need not be escaped in JSON as itself. */
function unescaped(json: string): string {
  return json.replace(/\\(?:u([0-9a-f]{4})|.)/gi, (whole, hex: string | undefined) => {
    if (whole === '\\/') return '/';
    const code = Number.parseInt(hex ?? '', 16);
    return code > 0x7e ? String.fromCharCode(code) : whole;
  });
}

const ascii = (json: string) =>
  json.replace(/[^\u0000-\u007e]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);
