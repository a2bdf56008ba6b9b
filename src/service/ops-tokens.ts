import { dirname, resolve } from 'node:path';
import type { Config, OpsToken } from '../config.ts';
import { UsageError } from '../errors.ts';
import { loadOrCreateOpsToken } from '../ops/token-file.ts';
import { isPostgres, sqlitePath } from '../store/open.ts';

/** Beside a file a token can be made and kept; what replicas share must be given to each of them. */
export function requireTokens(config: Config): void {
  if (config.ops.tokens.length > 0 || !isPostgres(config.databaseUrl)) return;
  throw new UsageError(
    "OPS_TOKENS: not set; with a PostgreSQL database every replica needs the same operators' tokens",
    'set it to name:role:token, for example olga:operate:$(openssl rand -hex 16)',
  );
}

export function opsTokens(config: Config): { all: () => readonly OpsToken[]; made: OpsToken | null } {
  if (config.ops.tokens.length > 0) return { all: () => config.ops.tokens, made: null };
  const made = loadOrCreateOpsToken(dirname(resolve(sqlitePath(config.databaseUrl))));
  const all = [made];
  return { all: () => all, made };
}
