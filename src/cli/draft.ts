import {
  chmodSync,
  existsSync,
  mkdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { parseEnv } from 'node:util';
import { loadConfig } from '../platform/config.ts';
import { describeError, UsageError } from '../platform/errors.ts';
import { aboutSetting, type SettingName } from '../platform/settings.ts';
import { isSetBy, readEnvText, withEnvText } from './env-file.ts';

/** Beside the `.env`. */
const SECRETS_FOLDER = 'secrets';

export type Draft = ReturnType<typeof createDraft>;

/** NAME of NAME_FILE, and NAME_FILE of NAME. */
const otherOf = (name: string) => (name.endsWith('_FILE') ? name.replace(/_FILE$/, '') : `${name}_FILE`);

/** The settings as they will be: the text of `.env`, and secrets that get a file each, in memory until they are written. */
export function createDraft(environment: NodeJS.ProcessEnv, path: string) {
  let written = readEnvText(path);
  let text = written;
  const secrets = new Map<string, string>();

  /** The settings as commands see them: the environment wins. */
  function env(): NodeJS.ProcessEnv {
    const merged = withEnvText(environment, text);
    for (const [name, value] of secrets) {
      delete merged[otherOf(name)];
      merged[name] = value;
    }
    return merged;
  }

  function set(name: string, value: string): void {
    secrets.delete(name.replace(/_FILE$/, ''));
    text = withSetting(text, otherOf(name), null);
    const isDefault = !name.endsWith('_FILE') && value === aboutSetting(name as SettingName).otherwise;
    text = withSetting(text, name, isDefault ? null : value);
  }

  const fileOf = (name: string) =>
    join(dirname(path), SECRETS_FOLDER, name.toLowerCase().replaceAll('_', '-'));

  return {
    env,
    /** The value of NAME or NAME_FILE, or the default. */
    held: (name: SettingName) =>
      env()[name] || env()[otherOf(name)] || (aboutSetting(name).otherwise ?? undefined),
    /** Whether the environment sets it, which no file can change. */
    isFixed: (name: string) => isSetBy(environment, name),
    set,
    /** The value goes into a file of its own, which `.env` names. */
    setSecret(name: string, value: string): void {
      set(`${name}_FILE`, fileOf(name));
      secrets.set(name, value);
    },
    /** What would be wrong with this value, without the value, which may be a secret at the wrong place; null: nothing. */
    problemOf(name: string, value: string): string | null {
      const { [otherOf(name)]: _, ...others } = env();
      try {
        loadConfig({ ...others, [name]: value });
        return null;
      } catch (error) {
        if (!(error instanceof UsageError)) throw error;
        const problem = error.message.split('\n').find((line) => line.startsWith(`${name}:`));
        const [what = '', takes] = problem?.split('; takes ') ?? [];
        return problem === undefined ? null : takes === undefined ? what : `It takes ${takes}`;
      }
    },
    config: () => loadConfig(env()),
    /** The lines that are new or different. None of them is a secret. */
    changes(): string[] {
      const before = parseEnv(written);
      const changed = Object.entries(parseEnv(text)).filter(([name, value]) => before[name] !== value);
      return changed.map(([name, value]) => `${name}=${value}`);
    },
    isChanged: () => text !== written || secrets.size > 0,
    /** Resolves with the files that were written. */
    write(): string[] {
      if (readEnvText(path) !== written) {
        throw new UsageError(
          `${path} was changed by somebody else meanwhile`,
          'run setup again: it begins with what is there',
        );
      }
      const files = [...secrets].map(([name, value]) => {
        writePrivate(fileOf(name), `${value}\n`);
        return fileOf(name);
      });
      secrets.clear();
      if (text !== written) {
        writePrivate(path, text);
        files.push(path);
        written = text;
      }
      return files;
    },
  };
}

/**
 * The text of an `.env` in which `name` is `value` (null: is not set), and every other setting stays as it is. Pure.
 * @throws UsageError if no spelling of the value can be read back, or other lines of the file prevent it.
 */
export function withSetting(text: string, name: string, value: string | null): string {
  const before = parseEnv(text);
  if ((before[name] ?? null) === value) return text;
  const lines = text.split('\n').filter((line) => /^\s*(?:export\s+)?(\w+)\s*=/.exec(line)?.[1] !== name);
  const rest = lines.join('\n').replace(/([^\n])$/, '$1\n');
  // First without quotes, which `docker run --env-file` takes for a part of the value.
  const spellings =
    value === null ? [''] : ['', "'", '`', '"'].map((quote) => `${name}=${quote}${value}${quote}\n`);
  for (const spelling of spellings) {
    // Read as every command will: a quoted value of several lines may have lost some.
    const after = withEnvText({}, rest + spelling);
    const { [name]: _, ...others } = before;
    const meant = value === null ? others : { ...others, [name]: value };
    if (isSame(after, meant)) return rest + spelling;
  }
  throw new UsageError(
    `${name} cannot be set in .env without changing other lines of it`,
    'look for quotes that are not closed, or move the file away',
  );
}

const isSame = (a: NodeJS.ProcessEnv, b: NodeJS.ProcessEnv) =>
  [...Object.keys({ ...a, ...b })].every((name) => a[name] === b[name]);

/** For their owner alone to read. */
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

/** Writes the whole file or nothing. Of a symbolic link, the file behind it is replaced. */
export function writePrivate(path: string, text: string): void {
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: FOLDER_MODE });
    const target = statSync(path, { throwIfNoEntry: false }) === undefined ? path : realpathSync(path);
    writeFileSync(temporary, text, { flag: 'wx', mode: FILE_MODE, flush: true });
    chmodSync(temporary, FILE_MODE);
    renameSync(temporary, target);
  } catch (error) {
    if (existsSync(temporary)) rmSync(temporary);
    throw new UsageError(`${path} cannot be written: ${describeError(error)}`, 'let this user write there');
  }
}
