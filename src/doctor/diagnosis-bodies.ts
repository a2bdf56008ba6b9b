import type { Steps } from './diagnosis-steps.ts';

/** What a body may have been when it was signed, and what happened to it since. */
export interface BodyForm {
  /** Null: as received. */
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
 * A form that is so many times as long as what was received is not tried: indented or escaped, a real event grows to
 * three times its length, and only a body made for it to twenty.
 */
const MAX_GROWTH = 8;
/** For bodies so short that everything is many times as long. Characters. */
const SHORT_CHARACTERS = 1024;

/** Each distinct form once. What changes least comes first, so that the plainest explanation is found first. */
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

  // As Latin-1, where every byte is one character: a body that is no UTF-8 comes through unharmed.
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
  for (const [order, ordered] of orders(tree)) {
    for (const [spacing, layout] of LAYOUTS) {
      for (const [escapes, quote] of ESCAPES) {
        yield;
        const printed = print(ordered, layout, quote, longest);
        if (printed === null) continue;
        const name = `as JSON ${[spacing, escapes, order].filter((part) => part !== '').join(', ')}`;
        add('body_reserialised', name, Buffer.from(printed, 'utf8'));
      }
    }
  }
  return forms;
}

/** By hand: a pattern anchored at the end tries every line end on the way to it, and each to the end of its run. */
function withoutFinalLineEnds(text: string): string {
  let end = text.length;
  while (text[end - 1] === '\n' || text[end - 1] === '\r') end -= 1;
  return text.slice(0, end);
}

/** Numbers keep the digits they came with: a parsed and printed 1.0 is 1, and has another signature. */
type Node =
  | { kind: 'literal'; text: string }
  | { kind: 'string'; value: string }
  | { kind: 'array'; items: Node[] }
  | { kind: 'object'; members: [string, Node][] };

/** Deeper is never an event; the parser here calls itself. */
const MAX_DEPTH = 64;
const TOKEN = /\s*("(?:[^"\\\u0000-\u001f]|\\.)*"|[[\]{}:,]|[^\s[\]{}:,"]+)/y;

function parse(text: string): Node | null {
  try {
    // The engine judges what is JSON; what follows need not.
    JSON.parse(text);
  } catch {
    return null;
  }
  let at = 0;
  const next = (): string => {
    TOKEN.lastIndex = at;
    const token = TOKEN.exec(text)?.[1] ?? '';
    at = TOKEN.lastIndex;
    return token;
  };
  const stringOf = (token: string) => JSON.parse(token) as string;

  function node(token: string, depth: number): Node {
    if (depth > MAX_DEPTH) throw new RangeError('too deep');
    if (token.startsWith('"')) return { kind: 'string', value: stringOf(token) };
    if (token === '[') {
      const items: Node[] = [];
      for (let each = next(); each !== ']'; each = next()) {
        if (each !== ',') items.push(node(each, depth + 1));
      }
      return { kind: 'array', items };
    }
    if (token === '{') {
      const members: [string, Node][] = [];
      for (let each = next(); each !== '}'; each = next()) {
        if (each === ',') continue;
        next();
        members.push([stringOf(each), node(next(), depth + 1)]);
      }
      return { kind: 'object', members };
    }
    return { kind: 'literal', text: token };
  }
  try {
    return node(next(), 0);
  } catch {
    return null;
  }
}

/** As the specification lists an event's fields. */
const ENVELOPE_ORDER = ['id', 'type', 'created', 'data'];

function orders(tree: Node): [string, Node][] {
  return [
    ['', tree],
    ['keys sorted', sorted(tree)],
    ['fields in the order of the specification', enveloped(tree)],
  ];
}

function sorted(node: Node): Node {
  if (node.kind === 'array') return { ...node, items: node.items.map(sorted) };
  if (node.kind !== 'object') return node;
  const members = node.members.map(([key, value]): [string, Node] => [key, sorted(value)]);
  return { ...node, members: members.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)) };
}

function enveloped(node: Node): Node {
  if (node.kind !== 'object') return node;
  const rank = ([key]: [string, Node]) => {
    const place = ENVELOPE_ORDER.indexOf(key);
    return place === -1 ? ENVELOPE_ORDER.length : place;
  };
  return { ...node, members: [...node.members].sort((a, b) => rank(a) - rank(b)) };
}

interface Layout {
  comma: string;
  colon: string;
  /** Null: everything on one line. */
  indent: string | null;
}

/** How the common libraries print: JavaScript and Go, Python, and the usual pretty printers. */
const LAYOUTS: readonly (readonly [string, Layout])[] = [
  ['without blanks', { comma: ',', colon: ':', indent: null }],
  ['with ", " and ": "', { comma: ', ', colon: ': ', indent: null }],
  ['indented by 2', { comma: ',', colon: ': ', indent: '  ' }],
  ['indented by 4', { comma: ',', colon: ': ', indent: '    ' }],
  ['indented by tabs', { comma: ',', colon: ': ', indent: '\t' }],
];

const unicode = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
const plain = (text: string) => JSON.stringify(text);
const ascii = (text: string) => plain(text).replace(/[^\u0000-\u007e]/g, unicode);
const slashed = (quote: (text: string) => string) => (text: string) => quote(text).replaceAll('/', '\\/');

const ESCAPES: readonly (readonly [string, (text: string) => string])[] = [
  ['', plain],
  ['non-ASCII as \\u', ascii],
  ['slashes escaped', slashed(plain)],
  ['non-ASCII as \\u and slashes escaped', slashed(ascii)],
  // Go's default.
  ['<, > and & as \\u', (text) => plain(text).replace(/[<>&\u2028\u2029]/g, unicode)],
];

/** Null: it is longer than `longest` characters. */
function print(tree: Node, layout: Layout, quote: (text: string) => string, longest: number): string | null {
  const margin = (depth: number) => (layout.indent === null ? '' : `\n${layout.indent.repeat(depth)}`);
  let out = '';
  const write = (node: Node, depth: number): void => {
    if (out.length > longest) return;
    if (node.kind === 'literal') out += node.text;
    else if (node.kind === 'string') out += quote(node.value);
    else {
      const [open, close] = node.kind === 'array' ? '[]' : '{}';
      const parts = node.kind === 'array' ? node.items : node.members;
      out += open;
      for (const [index, part] of parts.entries()) {
        if (out.length > longest) return;
        out += (index === 0 ? '' : layout.comma) + margin(depth + 1);
        if (!Array.isArray(part)) write(part, depth + 1);
        else {
          out += quote(part[0]) + layout.colon;
          write(part[1], depth + 1);
        }
      }
      out += parts.length === 0 ? close : margin(depth) + close;
    }
  };
  write(tree, 0);
  return out.length > longest ? null : out;
}
