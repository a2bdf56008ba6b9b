import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { OpsToken } from '../platform/config.ts';
import { tokenFlaw } from '../platform/config-parsers.ts';
import { describeError, UsageError } from '../platform/errors.ts';
import { openToOthers } from '../platform/private-files.ts';

/** 256 bits: no rate of guessing finds it. */
const TOKEN_BYTES = 32;

export const OPS_TOKEN_FILE = 'ops-token';

/** A token without its text. */
export interface KnownToken extends Pick<OpsToken, 'name' | 'role'> {
  /** A hash of the token, which identifies it. */
  key: string;
}

/** Compares hashes of equal length in constant time, and always against every token. */
export function createTokens(current: () => readonly OpsToken[]) {
  const known = () =>
    current().map(({ name, role, token }) => {
      const digest = sha256(token);
      return { name, role, digest, key: digest.toString('base64url') };
    });

  return {
    /** The tokens that are valid now. */
    known,
    /** Null: there is no such token. */
    match(presented: string): KnownToken | null {
      const digest = sha256(presented);
      const matching = known().filter((each) => timingSafeEqual(each.digest, digest));
      return matching[0] ?? null;
    },
  };
}

const sha256 = (text: string) => hash('sha256', text, 'buffer');

/** A link that signs in. The token is after the `#`, which browsers do not send. */
export function signInLink(baseUrl: string, token: string): string {
  const url = new URL('/sign-in', baseUrl);
  url.hash = new URLSearchParams({ token }).toString();
  return url.href;
}

/**
 * The `operate` token of a service whose OPS_TOKENS is not set: read from `ops-token` in `dir`, or made there,
 * readable by its owner only. Throws UsageError when the file cannot be read, made or used.
 */
export function loadOrCreateOpsToken(dir: string): OpsToken {
  const path = join(dir, OPS_TOKEN_FILE);
  try {
    mkdirSync(dir, { recursive: true });
    const made = randomBytes(TOKEN_BYTES).toString('base64url');
    // `wx` and the mode in one call: never a moment in which another user could read or plant the file.
    writeFileSync(path, `${made}\n`, { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw unusable(path, error);
  }
  const open = openToOthers(path);
  if (open !== null) {
    throw new UsageError(
      `${path}, with the operators' token, ${open}`,
      'or delete it to have a new one made, since others may know this one',
    );
  }
  const token = read(path);
  // The same rule as for OPS_TOKENS.
  const flaw = tokenFlaw(token);
  if (flaw !== null)
    throw new UsageError(`${path} ${flaw}`, 'delete the file to have a new one made, or set OPS_TOKENS');
  return { name: 'first-start', role: 'operate', token };
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw unusable(path, error);
  }
}

const unusable = (path: string, error: unknown) =>
  new UsageError(
    `cannot read or make ${path}, with the operators' token: ${describeError(error)}`,
    'give the service the right to, or set OPS_TOKENS',
  );
