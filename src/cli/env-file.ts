import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { UsageError } from '../platform/errors.ts';

/** Read in the working folder by every command. */
export const ENV_FILE = '.env';

/**
 * The environment, with the settings that only the text of an `.env` has. If the environment has NAME or NAME_FILE, even
 * empty, the text's NAME and NAME_FILE do not count. Pure. @throws UsageError if a line is only half a setting.
 */
export function withEnvText(env: NodeJS.ProcessEnv, text: string): NodeJS.ProcessEnv {
  const merged = { ...env };
  for (const [name, value] of Object.entries(parseEnv(text))) {
    if (!isSetBy(env, name)) merged[name] = value;
  }
  const lines = text.split('\n');
  const nameOf = (line: number) => `line ${line + 1}`;
  // A line that is marked as a setting becomes one, except inside a quoted value.
  const marked = lines.map((line, at) => (isHalf(line, merged) ? `${nameOf(at)}=${line}` : line));
  const read = parseEnv(marked.join('\n'));
  const half = lines.findIndex((_, at) => read[nameOf(at)] !== undefined);
  if (half >= 0) {
    // Not the line itself, which may be a part of a secret.
    const what = `${ENV_FILE} in the working folder, ${nameOf(half)}: neither NAME=value nor a comment`;
    throw new UsageError(what, 'complete it, or begin it with #');
  }
  return merged;
}

/** A name alone is right where it is set all the same: for a shell, and for docker's --env-file. */
function isHalf(line: string, settings: NodeJS.ProcessEnv): boolean {
  const words = line.trim();
  if (words === '' || words.startsWith('#') || words.includes('=')) return false;
  return !isSetBy(settings, words.replace(/^export\s+/, ''));
}

/** Whether `env` has the setting, as NAME or NAME_FILE, even empty. */
export function isSetBy(env: NodeJS.ProcessEnv, name: string): boolean {
  const plain = name.replace(/_FILE$/, '');
  return env[plain] !== undefined || env[`${plain}_FILE`] !== undefined;
}

/** The file's text; empty if there is no file. @throws UsageError if the file cannot be read. */
export function readEnvText(path: string): string {
  const text = readText(path);
  // PowerShell writes UTF-16, which has a NUL beside every letter: no line of it would be a setting.
  if (text.includes('\0')) {
    throw new UsageError(`${path} in the working folder is not UTF-8 text`, 'save it as UTF-8');
  }
  // Some editors put a byte order mark before the text. It would become a part of the first name.
  return text.replace(/^\uFEFF/, '');
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Docker makes a folder of that name if the file that it should mount does not exist.
    if (code === 'ENOENT' || code === 'EISDIR') return '';
    throw new UsageError(
      `${path} in the working folder cannot be read (${code ?? String(error)})`,
      'let this user read it, or move it away',
    );
  }
}
