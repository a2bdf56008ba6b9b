/** Work that can pause at each `yield`. Between two of them it takes a few milliseconds at most. */
export type Steps<Result> = Generator<undefined, Result, undefined>;

/** A form that a body may have had when it was signed. */
export interface BodyForm {
  /** What has happened to the body since; null: nothing. */
  fault: BodyFault | null;
  /** For people: the form that the signature fits. */
  name: string;
  bytes: Uint8Array;
}

export type BodyFault =
  | 'bom_added'
  | 'bom_removed'
  | 'line_endings_changed'
  | 'final_newline_changed'
  | 'body_reserialised';

const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * A form that is longer than this many times the received body is not tried. Indented or escaped, a real event grows to
 * three times its length; a body that an attacker made for this could grow to twenty.
 */
const MAX_GROWTH = 8;
/** Forms up to about this length are tried anyway, because they can be many times as long as a short body. Characters. */
const SHORT_CHARACTERS = 1024;

/** Every distinct form once. Smaller changes come first, so that the simplest explanation is found first. */
export function* bodyForms(received: Uint8Array): Steps<BodyForm[]> {
  const bytes = Buffer.from(received);
  const forms: BodyForm[] = [{ fault: null, name: 'as received', bytes }];
  const seen = new Set([bytes.toString('latin1')]);
  const add = (fault: BodyFault, name: string, form: Uint8Array) => {
    const text = Buffer.from(form).toString('latin1');
    if (seen.has(text)) return;
    seen.add(text);
    forms.push({ fault, name, bytes: form });
  };

  const hasBom = bytes.subarray(0, BOM.length).equals(BOM);
  const bare = hasBom ? bytes.subarray(BOM.length) : bytes;
  if (hasBom) add('bom_added', 'without the byte order mark', bare);
  else add('bom_removed', 'with a byte order mark', Buffer.concat([BOM, bytes]));

  // In Latin-1 every byte is one character, so a body that is not UTF-8 stays intact.
  const text = bytes.toString('latin1');
  const unix = text.replaceAll('\r\n', '\n');
  const latin1 = (changed: string) => Buffer.from(changed, 'latin1');
  add('line_endings_changed', 'with LF line ends', latin1(unix));
  add('line_endings_changed', 'with CRLF line ends', latin1(unix.replaceAll('\n', '\r\n')));
  const trimmed = withoutFinalLineEnds(text);
  add('final_newline_changed', 'without the final line end', latin1(trimmed));
  add('final_newline_changed', 'with a final LF', latin1(`${trimmed}\n`));
  add('final_newline_changed', 'with a final CRLF', latin1(`${trimmed}\r\n`));

  yield;
  const tree = parse(bare.toString('utf8'));
  if (tree === null) return forms;
  const longest = MAX_GROWTH * bytes.length + SHORT_CHARACTERS;
  for (const [order, ordered] of orders(tree.value)) {
    for (const [spacing, layout] of LAYOUTS) {
      yield;
      // Checked before printing: only indenting makes a short body very long.
      if (typeof layout === 'string' && layout.length * tree.indents > longest) continue;
      const printed = print(ordered, layout);
      if (printed.length > longest) continue;
      for (const [escapes, escaped] of ESCAPES) {
        yield;
        const form = escaped(printed);
        if (form.length > longest) continue;
        const name = `as JSON ${[spacing, escapes, order].filter((part) => part !== '').join(', ')}`;
        add('body_reserialised', name, Buffer.from(form, 'utf8'));
      }
    }
  }
  return forms;
}

/** Not by a regular expression, which would take quadratic time for a body of many line ends. */
function withoutFinalLineEnds(text: string): string {
  let end = text.length;
  while (text[end - 1] === '\n' || text[end - 1] === '\r') end -= 1;
  return text.slice(0, end);
}

/** No event is deeper, and the functions below are recursive. */
const MAX_DEPTH = 64;
// JSON always has the last quote. It is optional here because a search that cannot fail takes linear time on any text.
const STRING = /"((?:[^"\\]|\\.)*)"?/g;
const STRING_OR_MARK = /"(?:[^"\\]|\\.)*"?|[[\]{},:]/g;

// The types that TypeScript knows here do not have these functions yet.
const { rawJSON, isRawJSON } = JSON as unknown as {
  rawJSON(text: string): object;
  isRawJSON(value: unknown): boolean;
};

/** `indents`: how many units of indentation all lines would have together, or a few more. */
function parse(text: string): { value: unknown; indents: number } | null {
  try {
    JSON.parse(text);
    let depth = 0;
    let indents = 0;
    for (const [token] of text.matchAll(STRING_OR_MARK)) {
      if (token === '[' || token === '{') depth += 1;
      else if (token === ']' || token === '}') depth -= 1;
      if (depth > MAX_DEPTH) return null;
      if (token.length === 1 && token !== ':') indents += depth;
    }
    // An object puts keys that look like numbers first. With a "=" in front they keep their places.
    return { value: JSON.parse(text.replace(STRING, '"=$1"'), exactly), indents };
  } catch {
    return null;
  }
}

/** Keeps the digits of numbers: 1.0 would be printed as 1, which has another signature. */
function exactly(_key: string, value: unknown, { source }: { source?: string } = {}): unknown {
  return typeof value === 'number' && source !== undefined ? rawJSON(source) : value;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isRawJSON(value);

/** The order in which the specification lists an event's fields. */
const ENVELOPE_ORDER = ['=id', '=type', '=created', '=data'];

function orders(tree: unknown): [string, unknown][] {
  return [
    ['', tree],
    ['keys sorted', sorted(tree)],
    ['fields in the order of the specification', enveloped(tree)],
  ];
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  const members = Object.entries(value).map(([key, each]): [string, unknown] => [key, sorted(each)]);
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)));
}

function enveloped(value: unknown): unknown {
  if (!isObject(value)) return value;
  const first = ENVELOPE_ORDER.filter((key) => key in value).map((key) => [key, value[key]]);
  return Object.fromEntries([...first, ...Object.entries(value)]);
}

/** The indentation of a line, or a function that makes the layout from JSON without blanks. */
type Layout = string | ((compact: string) => string);

/** How the common libraries print: JavaScript and Go, Python, and the usual pretty printers. */
const LAYOUTS: readonly (readonly [string, Layout])[] = [
  ['without blanks', (compact) => compact],
  [
    'with ", " and ": "',
    (compact) => compact.replace(STRING_OR_MARK, (token) => (/^[,:]/.test(token) ? `${token} ` : token)),
  ],
  ['indented by 2', '  '],
  ['indented by 4', '    '],
  ['indented by tabs', '\t'],
];

function print(value: unknown, layout: Layout): string {
  const indent = typeof layout === 'string' ? layout : '';
  const printed = JSON.stringify(value, null, indent).replace(STRING, (token) => `"${token.slice(2)}`);
  return typeof layout === 'string' ? printed : layout(printed);
}

const unicode = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
const ascii = (json: string) => json.replace(/[^\u0000-\u007e]/g, unicode);
const slashed = (json: string) => json.replaceAll('/', '\\/');

/** Applied to the whole JSON: outside of strings it has none of these characters. */
const ESCAPES: readonly (readonly [string, (json: string) => string])[] = [
  ['', (json) => json],
  ['non-ASCII as \\u', ascii],
  ['slashes escaped', slashed],
  ['non-ASCII as \\u and slashes escaped', (json) => slashed(ascii(json))],
  // Go's default.
  ['<, > and & as \\u', (json) => json.replace(/[<>&\u2028\u2029]/g, unicode)],
];
