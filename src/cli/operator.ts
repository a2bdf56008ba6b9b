import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { systemClock } from '../clock.ts';
import type { Kind } from '../compliance/kinds.ts';
import { type Config, loadConfig } from '../config.ts';
import { MirrorError, UsageError } from '../errors.ts';
import { CONSENT_MS } from '../ops/operations.ts';
import { OPS_TOKEN_FILE } from '../ops/token-file.ts';
import type { HintTiming, Store } from '../store/store.ts';
import type { Cli } from './cli.ts';
import { databasePath, holderOfDatabase, withLockedStore, withStore } from './database.ts';
import { createOpsClient, type OpsClient } from './ops-client.ts';

/** What an operator may do from the shell, whether a service holds the database or not. */
export interface Operator {
  /** The service that does it, or null: none is running, and it is done on the database directly. */
  service: OpsClient | null;
  retryEvent(id: string): Promise<boolean>;
  discardEvent(id: string): Promise<boolean>;
  releaseQuarantined(id: number): Promise<boolean>;
  confirmDeletions(sweepId: number): Promise<{ kind: Kind | null; ids: string[] }>;
  refetch(kind: Kind, ids: string[]): Promise<void>;
  setPaused(paused: boolean): Promise<void>;
}

/** In the audit, beside the names of tokens. */
const ACTOR = 'cli';
/** Where the service looks at its start. */
const PAUSED_FACT = 'paused';

/**
 * Runs `work` with the hands that fit: with OPS_URL, through that listener, wherever it is; through the operators' listener while a service holds the database, so
 * that there is one writer and the service knows at once; otherwise on the database itself.
 */
export async function withOperator<T>(cli: Cli, work: (operator: Operator) => Promise<T>): Promise<T> {
  const config = loadConfig(cli.env);
  if (config.remote !== null) {
    const { url, token } = config.remote;
    return await work(remoteOperator(createOpsClient({ url: url.href, token: token() })));
  }
  const service = await runningService(config);
  if (service !== null) return await work(remoteOperator(service));
  // A database that is not there would be made by opening it for writing; looking first says so instead.
  await withStore(cli, async () => {});
  return await withLockedStore(cli, (store) => work(localOperator(store, config.sync)));
}

/** The service that holds the database, as its operators' listener; null: none does. */
export async function runningService(config: Config): Promise<OpsClient | null> {
  const holder = await holderOfDatabase(config.databaseUrl);
  if (holder === null) return null;
  if (holder.opsUrl === null) {
    throw new MirrorError('starting', `process ${holder.pid} holds the database and is not listening yet`, {
      retryable: true,
      hint: 'try again in a moment',
    });
  }
  return createOpsClient({ url: holder.opsUrl, token: await operateToken(config) });
}

async function operateToken(config: Config): Promise<string> {
  const configured = config.ops.tokens.find((token) => token.role === 'operate');
  if (configured !== undefined) return configured.token;
  if (config.ops.tokens.length > 0) {
    throw new UsageError('OPS_TOKENS holds no token with the role "operate"', 'changes need one');
  }
  const path = join(dirname(await databasePath(config.databaseUrl)), OPS_TOKEN_FILE);
  if (!existsSync(path)) {
    throw new UsageError(
      `there is no operators' token: OPS_TOKENS is not set, and ${path} does not exist`,
      'set OPS_TOKENS to what the service was started with',
    );
  }
  return readFileSync(path, 'utf8').trim();
}

function remoteOperator(service: OpsClient): Operator {
  const wasDone = async (path: string) => (await service.postIfFound(path)) !== null;
  return {
    service,
    retryEvent: (id) => wasDone(`/api/events/${encodeURIComponent(id)}/retry`),
    discardEvent: (id) => wasDone(`/api/events/${encodeURIComponent(id)}/discard`),
    releaseQuarantined: (id) => wasDone(`/api/quarantine/${id}/release`),
    async confirmDeletions(sweepId) {
      const answer = await service.postIfFound(`/api/sweeps/${sweepId}/confirm-deletions`);
      const { kind, ids } = (answer ?? {}) as { kind?: Kind; ids?: string[] };
      return { kind: kind ?? null, ids: ids ?? [] };
    },
    async refetch(kind, ids) {
      for (const id of ids) {
        await service.post(`/api/records/${kind}/${encodeURIComponent(id)}/refetch`, {});
      }
    },
    async setPaused(paused) {
      await service.post(paused ? '/api/pause' : '/api/resume', {});
    },
  };
}

function localOperator(store: Store, timing: HintTiming): Operator {
  const clock = systemClock();
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  const audit = (action: string, outcome: string, target: string | null) =>
    store.audit({ actor: ACTOR, action, outcome, target }, now());
  async function audited(action: string, target: string, act: () => Promise<boolean>): Promise<boolean> {
    const done = await act();
    await audit(action, done ? 'ok' : 'not_possible', target);
    return done;
  }
  return {
    service: null,
    retryEvent: (id) => audited('event_retry', id, () => store.retryEvent(id, now())),
    discardEvent: (id) => audited('event_discard', id, () => store.discardEvent(id, now())),
    releaseQuarantined: (id) =>
      audited('quarantine_release', String(id), () => store.releaseQuarantined(id, now(), timing)),
    async confirmDeletions(sweepId) {
      if ((await store.showSweep(sweepId)) === null) return { kind: null, ids: [] };
      const held = await store.confirmDeletions(sweepId, clock.wall() + CONSENT_MS);
      await audit(
        'confirm_deletions',
        held.ids.length > 0 ? `ok:${held.ids.length}` : 'not_possible',
        String(sweepId),
      );
      return held;
    },
    async refetch(kind, ids) {
      await store.makeDue(kind, ids, now());
      for (const id of ids) await audit('refetch', 'ok', `${kind}/${id}`);
    },
    async setPaused(paused) {
      await store.writeFact(PAUSED_FACT, paused ? 'true' : 'false');
      await audit(paused ? 'pause' : 'resume', 'ok', null);
    },
  };
}
