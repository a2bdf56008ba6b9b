import { chmodSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { loadConfig } from '../../platform/config.ts';
import { describeError, UsageError } from '../../platform/errors.ts';
import { isSetBy, readEnvText, withEnvText } from '../env-file.ts';

/** The defaults of the settings that setup can find out. The other settings that it writes have none. */
export const DEFAULTS: Readonly<Record<string, string>> = {
  COMPLIANCE_AUTH: 'api_key',
  COMPLIANCE_PAGE_PARAM: 'page',
  COMPLIANCE_PER_PAGE_PARAM: 'perPage',
  COMPLIANCE_FIRST_PAGE: '1',
  WEBHOOK_SIGNED_CONTENT: '{t}.{body}',
  WEBHOOK_SIGNATURE_ALGORITHM: 'sha256',
  WEBHOOK_SECRET_ENCODING: 'utf8',
  WEBHOOK_SIGNATURE_HEADER: 'X-Webhook-Signature',
};

/** Settings of setup that may be shown. Everything else in the file may be a secret. */
const SHOWN: ReadonlySet<string> = new Set([
  ...Object.keys(DEFAULTS),
  'COMPLIANCE_BASE_URL',
  'COMPLIANCE_AUTH_URL',
  'COMPLIANCE_CLIENT_ID',
  'COMPLIANCE_REDIRECT_URI',
  'ID_POINTERS_POLICY',
  'ID_POINTERS_RISK_ASSESSMENT',
  'ID_POINTERS_VENDOR',
]);
const isPlain = (name: string) => SHOWN.has(name) || name.endsWith('_FILE');

export type Draft = ReturnType<typeof createDraft>;

/** The settings as they will be: the text of `.env`, changed in memory until it is written. */
export function createDraft(environment: NodeJS.ProcessEnv, path: string) {
  let written = readEnvText(path);
  let text = written;
  /** The settings as commands see them: the environment wins. */
  const env = () => withEnvText(environment, text);
  const get = (name: string) => env()[name] || undefined;
  return {
    env,
    get,
    /** The value of NAME or NAME_FILE. */
    held: (name: string) => get(name) ?? get(`${name}_FILE`),
    /** Whether the environment sets it, which no file can change. */
    isFixed: (name: string) => isSetBy(environment, name),
    /** A default gets no line. NAME replaces NAME_FILE, and the other way round. Returns a function that undoes it. */
    set(name: string, value: string): () => void {
      const before = text;
      const other = name.endsWith('_FILE') ? name.replace(/_FILE$/, '') : `${name}_FILE`;
      const alone = withSetting(text, other, null);
      const line = parseEnv(text)[name];
      const isDefault = value === DEFAULTS[name];
      // A line that is empty or has the default was written on purpose, so it stays.
      const isSaid = line === value || (isDefault && (line ?? '') === '');
      text = isSaid ? alone : withSetting(alone, name, isDefault ? null : value);
      return () => {
        text = before;
      };
    },
    /** What is wrong with this setting alone; null: nothing. */
    problemOf(name: string): string | null {
      const lines = problemsIn(env());
      return lines.find((line) => line.startsWith(`${name}:`) || line.startsWith(`${name}_FILE:`)) ?? null;
    },
    config: () => loadConfig(env()),
    isChanged: () => text !== written,
    /** The file's settings as they would be written, with secrets hidden. */
    shown: () =>
      Object.entries(parseEnv(text)).map(([name, value = '']) => ({
        name,
        value: isPlain(name) || value === '' ? value : '(hidden)',
      })),
    write(): void {
      if (readEnvText(path) !== written) {
        throw new UsageError(
          `${path} was changed by somebody else meanwhile`,
          'run setup again: it begins with what is there',
        );
      }
      writeEnvText(path, written, text);
      written = text;
    },
  };
}

function problemsIn(env: NodeJS.ProcessEnv): string[] {
  try {
    loadConfig(env);
    return [];
  } catch (error) {
    if (error instanceof UsageError) return error.message.split('\n');
    throw error;
  }
}

/**
 * The text of an `.env` in which `name` is `value` (null: is not set), and every other line stays as it is. Pure.
 * @throws UsageError if no spelling of the value can be read back, or other lines of the file prevent it.
 */
export function withSetting(text: string, name: string, value: string | null): string {
  const before = parseEnv(text);
  if ((before[name] ?? null) === value) return text;
  const found = assignmentsOf(text, name);
  // If there are several, the last one counts.
  const at = found.at(-1);
  const line = value === null ? '' : `${name}=${spelled(value)}\n`;
  const edited =
    value === null
      ? found.reduceRight((rest, { from, to }) => rest.slice(0, from) + rest.slice(to), text)
      : at === undefined
        ? `${text}${text === '' || text.endsWith('\n') ? '' : '\n'}${line}`
        : text.slice(0, at.from) + line + text.slice(at.to);
  // Checked by reading it as every command will.
  const after = parseEnv(edited);
  const isMeant = (key: string) => (after[key] ?? null) === (key === name ? value : (before[key] ?? null));
  if ([...Object.keys({ ...before, ...after }), name].every(isMeant)) return edited;
  throw new UsageError(
    `${name} cannot be set in .env without changing other lines of it`,
    'look for quotes that are not closed, or move the file away',
  );
}

const ASSIGNMENT = /^[ \t]*(?:export[ \t]+)?([\w.-]+)[ \t]*=[ \t]*/;

/** Where the assignments to `name` are, with their line ends. A quoted value may have several lines. */
function assignmentsOf(text: string, name: string): { from: number; to: number }[] {
  const found: { from: number; to: number }[] = [];
  for (let from = 0; from < text.length; ) {
    const lineEnd = text.indexOf('\n', from);
    const line = text.slice(from, lineEnd < 0 ? text.length : lineEnd);
    const match = ASSIGNMENT.exec(line);
    const begin = from + (match?.[0].length ?? 0);
    const quote = text[begin] ?? '';
    const closing = match !== null && /["'`]/.test(quote) ? text.indexOf(quote, begin + 1) : -1;
    const last = closing < 0 ? lineEnd : text.indexOf('\n', closing);
    const to = last < 0 ? text.length : last + 1;
    if (match?.[1] === name) found.push({ from, to });
    from = to;
  }
  return found;
}

/** The value as an `.env` spells it: if possible without quotes, which `docker run --env-file` takes for a part of it. */
function spelled(value: string): string {
  const spellings = [value, `'${value}'`, `\`${value}\``, `"${value}"`];
  const fits = spellings.find((each) => {
    const { A, B } = parseEnv(`A=${each}\nB=1\n`);
    return A === value && B === '1';
  });
  if (fits !== undefined) return fits;
  throw new UsageError('the value holds every kind of quote, and .env cannot hold that');
}

/** Because the file holds secrets. */
const OWNER_ONLY = 0o600;
/** The permissions of everybody but the owner. */
const OTHERS = 0o077;

/** Writes the whole file or nothing, readable only for its owner. An equal text is not written again. */
export function writeEnvText(path: string, before: string, text: string): void {
  const exists = statSync(path, { throwIfNoEntry: false });
  if (exists?.isDirectory() === true) throw new UsageError(`${path} is a folder, and a file is wanted there`);
  // If it is a symbolic link, the file behind it is replaced.
  const target = exists === undefined ? path : realpathSync(path);
  if (text === before) {
    if (exists !== undefined && (exists.mode & OTHERS) !== 0) chmodSync(target, OWNER_ONLY);
    return;
  }
  const temporary = `${target}.${process.pid}.tmp`;
  try {
    writeFileSync(temporary, text, { flag: 'wx', mode: OWNER_ONLY, flush: true });
    renameSync(temporary, target);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw new UsageError(`${path} cannot be written: ${describeError(error)}`, 'let this user write there');
  }
}
