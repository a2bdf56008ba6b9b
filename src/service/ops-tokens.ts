import { dirname, join, resolve } from 'node:path';
import { loadOrCreateOpsToken, OPS_TOKEN_FILE } from '../ops/token-file.ts';
import type { Config, OpsToken } from '../platform/config.ts';
import { UsageError } from '../platform/errors.ts';
import { isPostgres, sqlitePath } from '../store/open.ts';

/** Beside a file a token can be made and kept; what replicas share must be given to each of them. */
export function requireTokens(config: Config): void {
  if (config.ops.tokens.length > 0 || !isPostgres(config.databaseUrl)) return;
  throw new UsageError(
    "OPS_TOKENS: not set; with a PostgreSQL database every replica needs the same operators' tokens",
    'set it to name:role:token, for example olga:operate:$(openssl rand -hex 16)',
  );
}

/** `made`: the one of a service whose OPS_TOKENS is not set, and the file that keeps it. */
export function opsTokens(config: Config): {
  all: () => readonly OpsToken[];
  made: { token: string; file: string } | null;
} {
  if (config.ops.tokens.length > 0) return { all: () => config.ops.tokens, made: null };
  const folder = dirname(resolve(sqlitePath(config.databaseUrl)));
  const made = loadOrCreateOpsToken(folder);
  const all = [made];
  return { all: () => all, made: { token: made.token, file: join(folder, OPS_TOKEN_FILE) } };
}
