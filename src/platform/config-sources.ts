import { readFileSync, statSync } from 'node:fs';
import type { Parser } from './config-parsers.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** How often a secret's file is looked at: a rotation can wait this long, and not every delivery should wait for a stat. */
const SECRET_FILE_CHECK_MS = 1000;
/** Longer texts are cut in messages. */
const SHOWN_CHARACTERS = 60;

export interface ReaderOptions {
  /** Called when a secret's file has changed and its content cannot be used. The last good value stays. */
  onSecretProblem?: (message: string) => void;
}

export type Reader = ReturnType<typeof createReader>;

/** Reads settings from `NAME`, or from the file that `NAME_FILE` names. Collects all problems. */
export function createReader(env: Environment, options: ReaderOptions = {}) {
  const problems: string[] = [];
  /** Every name that was read so far. */
  const names = new Set<string>();
  const given = (name: string) => env[name] || undefined;

  /** The text and the path of the file that it came from; undefined: unset or unreadable. */
  function source(name: string): { text: string; path?: string } | undefined {
    names.add(name);
    const text = given(name);
    const path = given(`${name}_FILE`);
    if (text !== undefined && path !== undefined) {
      problems.push(`${name} and ${name}_FILE are both set; set one of them`);
      return undefined;
    }
    if (text !== undefined) return { text };
    if (path === undefined) return undefined;
    try {
      return { text: readSettingFile(path), path };
    } catch (error) {
      problems.push(`${name}_FILE: ${path} cannot be read (${(error as Error).message})`);
      return undefined;
    }
  }

  /** The parsed value and its file; null: unset or unusable. An unusable text is noted as a problem; `show`: what of it may be seen. */
  function parsed<Value>(name: string, parser: Parser<Value>, show: (text: string) => string) {
    const found = source(name);
    if (found === undefined) return null;
    const { text, path } = found;
    const value = parser.parse(text);
    if (value !== null) return { value, path };
    problems.push(`${name}: ${parser.flaw?.(text) ?? `got ${show(text)}`}; takes ${parser.takes}`);
    return null;
  }

  return {
    problems,
    names,
    problem: (line: string): void => void problems.push(line),
    /** Whether the setting is set, usable or not. */
    isSet: (name: string): boolean => given(name) !== undefined || given(`${name}_FILE`) !== undefined,
    /** The parsed value, or `otherwise` if it is unset or unusable. */
    value<Value, Default>(name: string, parser: Parser<Value>, otherwise: Default): Value | Default {
      return parsed(name, parser, (text) => shown(name, text))?.value ?? otherwise;
    },
    /** The same for a secret. It is never shown, and read again when its file changes. Null: unset or unusable. */
    secret<Value>(name: string, parser: Parser<Value>): (() => Value) | null {
      const found = parsed(name, parser, lengthOf);
      if (found === null) return null;
      const { value, path } = found;
      if (path === undefined) return () => value;
      const complain = (why: string) =>
        options.onSecretProblem?.(`${name}_FILE: ${path} ${why}; the value read before stays in use`);
      return watchedFile(path, value, parser, complain);
    },
  };
}

function watchedFile<Value>(
  path: string,
  first: Value,
  parser: Parser<Value>,
  complain: (why: string) => void,
): () => Value {
  let value = first;
  let seen = fingerprint(path);
  let checkedAt = performance.now();
  return () => {
    const now = performance.now();
    if (now - checkedAt < SECRET_FILE_CHECK_MS) return value;
    checkedAt = now;
    const current = fingerprint(path);
    if (current === seen) return value;
    seen = current;
    try {
      const text = readSettingFile(path);
      const parsed = parser.parse(text);
      const flaw = parsed === null ? (parser.flaw?.(text) ?? null) : null;
      if (parsed !== null) value = parsed;
      else complain(`has changed and does not hold ${parser.takes}${flaw === null ? '' : ` (${flaw})`}`);
    } catch (error) {
      complain(`cannot be read any more (${codeOrMessage(error)})`);
    }
    return value;
  };
}

/** Includes the inode, because a mounted secret is replaced by a rename. Of a file that cannot be reached: why. */
function fingerprint(path: string): string {
  try {
    const { ino, mtimeMs, size } = statSync(path);
    return `${ino}:${mtimeMs}:${size}`;
  } catch (error) {
    return codeOrMessage(error);
  }
}

function codeOrMessage(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}

/** The content without line breaks at its end, and without the byte order mark that some editors write. */
function readSettingFile(path: string): string {
  const content = readFileSync(path, 'utf8').replace(/^\uFEFF?(.*[^\r\n])?[\r\n]*$/s, '$1');
  if (content === '') throw new Error('the file is empty');
  return content;
}

function shown(name: string, value: string): string {
  // A URL may hold a password.
  if (name.endsWith('_URL')) return lengthOf(value);
  return JSON.stringify(value.length > SHOWN_CHARACTERS ? `${value.slice(0, SHOWN_CHARACTERS)}…` : value);
}

const lengthOf = (value: string) => `a text of ${value.length} characters`;

/** First words of our settings that other programs hardly use. PORT, HOST or LOG are not among them. */
const OUR_NAMES =
  /^(DATABASE|WEBHOOK|COMPLIANCE|SYNC|OPS|ID_POINTERS|RISK_IDS|PROCESS|RETRY|RETENTION|DEDUPE|CREDENTIALS|NOTIFY)_/;
/** Kubernetes sets these names in every container, for each service of the namespace. */
const ORCHESTRATOR_NAMES = /_(SERVICE_HOST|PORT)$|_SERVICE_PORT_|_PORT_\d{1,5}_(TCP|UDP)(_|$)/;
/** One typing error, or two. */
const SIMILAR_EDITS = 2;
/** A shorter name is similar to too many others. */
const SIMILAR_MIN_CHARACTERS = 8;

/** A line for each unknown name that is similar to a known one, or begins like ours. */
export function unknownNames(env: Environment, known: ReadonlySet<string>, ours = OUR_NAMES): string[] {
  const warnings: string[] = [];
  for (const given of Object.keys(env)) {
    const name = known.has(given) ? given : given.replace(/_FILE$/, '');
    if (env[given] === '' || known.has(name)) continue;
    let nearest = { candidate: '', edits: SIMILAR_EDITS + 1 };
    for (const candidate of known) {
      const edits = editDistance(name, candidate);
      if (edits < nearest.edits) nearest = { candidate, edits };
    }
    const isSimilar = nearest.edits <= SIMILAR_EDITS && name.length >= SIMILAR_MIN_CHARACTERS;
    const isOurs = ours.test(name) && !ORCHESTRATOR_NAMES.test(name);
    if (isSimilar) warnings.push(`${given}: no such setting; did you mean ${nearest.candidate}?`);
    else if (isOurs) warnings.push(`${given}: no such setting; it has no effect`);
  }
  return warnings;
}

/** The Levenshtein distance, row by row. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
