import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { UsageError } from '../errors.ts';

/** Read in the working folder by every command. */
const ENV_FILE = '.env';

/**
 * The environment, and under it what the working folder's `.env` says. A name that the environment sets, by itself or as
 * NAME_FILE, is not taken from the file in either spelling: an empty one takes a setting away.
 * @throws UsageError when the file is there and cannot be read.
 */
export function withEnvFile(env: NodeJS.ProcessEnv, path = ENV_FILE): NodeJS.ProcessEnv {
  const merged = { ...env };
  for (const [name, value] of Object.entries(readEnvFile(path))) {
    const plain = name.replace(/_FILE$/, '');
    if (env[plain] === undefined && env[`${plain}_FILE`] === undefined) merged[name] = value;
  }
  return merged;
}

function readEnvFile(path: string): NodeJS.Dict<string> {
  try {
    return parseEnv(readFileSync(path, 'utf8'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Docker makes a folder of that name where a file was to be mounted and is not there.
    if (code === 'ENOENT' || code === 'EISDIR') return {};
    throw new UsageError(
      `${path} in the working folder cannot be read (${code ?? String(error)})`,
      'let this user read it, or move it away',
    );
  }
}
