import { randomBytes } from 'node:crypto';
import { closeSync, fchmodSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { OpsToken } from '../platform/config.ts';
import { describeError, UsageError } from '../platform/errors.ts';
import { estimatedBits, TOKEN_MIN_BITS } from '../platform/token-strength.ts';

/** 256 bits: out of reach of guessing at any rate. */
const TOKEN_BYTES = 32;

export const OPS_TOKEN_FILE = 'ops-token';

/**
 * The `operate` token of a service whose OPS_TOKENS is not set: read from `ops-token` in `dir`, or made there,
 * readable by its owner only. Rejects with UsageError when the file cannot be read, made or used.
 */
export function loadOrCreateOpsToken(dir: string): OpsToken {
  const path = join(dir, OPS_TOKEN_FILE);
  const token = createExclusively(path, dir) ?? readExisting(path);
  return { name: 'first-start', role: 'operate', token };
}

/** Null when the file is there already. */
function createExclusively(path: string, dir: string): string | null {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  try {
    mkdirSync(dir, { recursive: true });
    // `wx` and the mode in one call: never a moment in which another user could read or plant the file.
    const file = openSync(path, 'wx', 0o600);
    try {
      // The umask can only have narrowed the mode; this makes it exact.
      fchmodSync(file, 0o600);
      writeSync(file, `${token}\n`);
    } finally {
      closeSync(file);
    }
    return token;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return null;
    throw new UsageError(
      `cannot write the operators' token to ${path}: ${describeError(error)}`,
      'make the folder writable for the service, or set OPS_TOKENS',
    );
  }
}

function readExisting(path: string): string {
  let token: string;
  try {
    token = readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw new UsageError(
      `cannot read the operators' token from ${path}: ${describeError(error)}`,
      'make the file readable for the service, or set OPS_TOKENS',
    );
  }
  // As OPS_TOKENS demands of its own.
  if (estimatedBits(token) < TOKEN_MIN_BITS || /\s/.test(token)) {
    throw new UsageError(
      `${path} does not hold a token of at least ${TOKEN_MIN_BITS} bits`,
      'delete the file to have a new one made, or set OPS_TOKENS',
    );
  }
  return token;
}
