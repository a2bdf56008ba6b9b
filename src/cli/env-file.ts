import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { UsageError } from '../platform/errors.ts';

/** Read in the working folder by every command. */
export const ENV_FILE = '.env';

/**
 * The environment, with the settings that only the text of an `.env` has. If the environment has NAME or NAME_FILE, even
 * empty, the text's NAME and NAME_FILE do not count. Pure.
 */
export function withEnvText(env: NodeJS.ProcessEnv, text: string): NodeJS.ProcessEnv {
  const merged = { ...env };
  for (const [name, value] of Object.entries(parseEnv(text))) {
    if (!isSetBy(env, name)) merged[name] = value;
  }
  return merged;
}

/** Whether `env` has the setting, as NAME or NAME_FILE, even empty. */
export function isSetBy(env: NodeJS.ProcessEnv, name: string): boolean {
  const plain = name.replace(/_FILE$/, '');
  return env[plain] !== undefined || env[`${plain}_FILE`] !== undefined;
}

/** The file's text; empty if there is no file. @throws UsageError if the file cannot be read. */
export function readEnvText(path: string): string {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Docker makes a folder of that name if the file that it should mount does not exist.
    if (code === 'ENOENT' || code === 'EISDIR') return '';
    throw new UsageError(
      `${path} in the working folder cannot be read (${code ?? String(error)})`,
      'let this user read it, or move it away',
    );
  }
  // PowerShell writes UTF-16, which has a NUL beside every letter: no line of it would be a setting.
  if (text.includes('\0'))
    throw new UsageError(`${path} in the working folder is not UTF-8 text`, 'save it as UTF-8');
  // Some editors put a byte order mark before the text. It would become a part of the first name.
  return text.replace(/^\uFEFF/, '');
}
