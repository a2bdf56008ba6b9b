import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { UsageError } from '../platform/errors.ts';

/** Read in the working folder by every command. */
export const ENV_FILE = '.env';

/**
 * The environment, and under it what the text of an `.env` says. A name that the environment sets, by itself or as
 * NAME_FILE, is not taken from the text in either spelling: an empty one takes a setting away. Pure.
 */
export function withEnvText(env: NodeJS.ProcessEnv, text: string): NodeJS.ProcessEnv {
  const merged = { ...env };
  for (const [name, value] of Object.entries(parseEnv(text))) {
    if (!isSetBy(env, name)) merged[name] = value;
  }
  return merged;
}

/** Does it say what a setting is, in either spelling, or that it is none? */
export function isSetBy(env: NodeJS.ProcessEnv, name: string): boolean {
  const plain = name.replace(/_FILE$/, '');
  return env[plain] !== undefined || env[`${plain}_FILE`] !== undefined;
}

/** Empty where there is none. @throws UsageError when the file is there and cannot be read. */
export function readEnvText(path: string): string {
  const text = readText(path);
  // UTF-16, as PowerShell writes it, has a NUL beside every letter, and no line of it would be a setting.
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
    // Docker makes a folder of that name where a file was to be mounted and is not there.
    if (code === 'ENOENT' || code === 'EISDIR') return '';
    throw new UsageError(
      `${path} in the working folder cannot be read (${code ?? String(error)})`,
      'let this user read it, or move it away',
    );
  }
}
