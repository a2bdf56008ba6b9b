import {
  chmodSync,
  closeSync,
  fsyncSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { parseEnv } from 'node:util';
import { describeError, UsageError } from '../../platform/errors.ts';

/** It holds secrets. */
const OWNER_ONLY = 0o600;
/** For everybody but the owner. */
const OTHERS = 0o077;

/**
 * The text of an `.env` in which `name` is `value` (null: is not set), and every other line is what it was. The same
 * text where it says so already. Pure.
 * @throws UsageError where no spelling of the value is read back as it is, or the file's own lines prevent it.
 */
export function withSetting(text: string, name: string, value: string | null): string {
  const before = parseEnv(text);
  if ((before[name] ?? null) === value) return text;
  const found = assignmentsOf(text, name);
  // Of several the last counts.
  const at = found.at(-1);
  const line = value === null ? '' : `${name}=${spelled(value)}\n`;
  const edited =
    value === null
      ? found.reduceRight((rest, { from, to }) => rest.slice(0, from) + rest.slice(to), text)
      : at === undefined
        ? `${text}${text === '' || text.endsWith('\n') ? '' : '\n'}${line}`
        : text.slice(0, at.from) + line + text.slice(at.to);
  // What is written is what every command will read: so it is read here first.
  const after = parseEnv(edited);
  const isMeant = (key: string) => (after[key] ?? null) === (key === name ? value : (before[key] ?? null));
  if ([...Object.keys({ ...before, ...after }), name].every(isMeant)) return edited;
  throw new UsageError(
    `${name} cannot be set in .env without changing other lines of it`,
    'look for quotes that are not closed, or move the file away',
  );
}

const ASSIGNMENT = /^[ \t]*(?:export[ \t]+)?([\w.-]+)[ \t]*=[ \t]*/;

/** Where assignments to `name` stand, with their line ends; a quoted value may go over several lines. */
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

/** As an `.env` has it: plain where that is read as it is, since `docker run --env-file` takes quotes for a part of it. */
function spelled(value: string): string {
  const spellings = [value, `'${value}'`, `\`${value}\``, `"${value}"`];
  const fits = spellings.find((each) => {
    const { A, B } = parseEnv(`A=${each}\nB=1\n`);
    return A === value && B === '1';
  });
  if (fits !== undefined) return fits;
  throw new UsageError('the value holds every kind of quote, and .env cannot hold that');
}

/** Whole or not at all, and for nobody else to read. Writes nothing where the file says so already. */
export function writeEnvText(path: string, before: string, text: string): void {
  const exists = statSync(path, { throwIfNoEntry: false });
  if (exists?.isDirectory() === true) throw new UsageError(`${path} is a folder, and a file is wanted there`);
  // Behind a symbolic link it is the file that is exchanged.
  const target = exists === undefined ? path : realpathSync(path);
  if (text === before) {
    if (exists !== undefined && (exists.mode & OTHERS) !== 0) chmodSync(target, OWNER_ONLY);
    return;
  }
  const temporary = `${target}.${process.pid}.tmp`;
  try {
    const file = openSync(temporary, 'wx', OWNER_ONLY);
    try {
      writeSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, target);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw new UsageError(`${path} cannot be written: ${describeError(error)}`, 'let this user write there');
  }
}
