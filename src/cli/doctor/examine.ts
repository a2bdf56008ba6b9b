import { existsSync } from 'node:fs';
import { pointersToSet } from '../../compliance/pointers.ts';
import type { Findings } from '../../doctor/judge.ts';
import { type Config, configWarnings } from '../../platform/config.ts';
import { describeError, MirrorError, NotMigrated, UsageError } from '../../platform/errors.ts';
import { standingOf } from '../../service/signing-secrets.ts';
import { readPause } from '../../service/state.ts';
import type { Store, StoredRegistration } from '../../store/store.ts';
import type { Cli } from '../cli.ts';
import { nameOf, opened as openedWith } from '../credentials.ts';
import {
  clockOf,
  databasePath,
  engines,
  holderOfDatabase,
  livingReplicas,
  openForWriting,
  withStore,
} from '../database.ts';
import { secretSettings, unusableSecret } from '../registrations.ts';
import { upstreamOf } from './upstream.ts';

/** Looks at everything that `judge` judges. Reads, and sends three GETs; a token may be got or renewed on the way. */
export async function examine(cli: Cli, config: Config): Promise<Findings> {
  const path = await databasePath(config.databaseUrl);
  const opened = await open(cli, config, path);
  try {
    const { store } = opened;
    const registrations = store === null ? null : await store.listRegistrations();
    const summary = store === null ? null : await store.summary();
    return {
      now: Date.now(),
      warnings: configWarnings(cli.env),
      database: {
        path: path ?? serverOf(config),
        isServer: path === null,
        bytes: summary?.database_bytes ?? null,
        problem: opened.problem,
        remedy: opened.remedy,
        isSetting: opened.isSetting,
        exposure:
          store === null
            ? null
            : await (await engines()).databaseExposure(config.databaseUrl, config.database),
      },
      service: await serviceOn(config, path, opened),
      upstream: config.compliance === null ? null : await upstreamOf(cli, config, config.compliance, store),
      settings: { ...config.sync, toleranceSeconds: config.webhook.toleranceSeconds },
      receiver: { host: config.host, port: config.port },
      secrets: secretsOf(config, registrations ?? []),
      sealed: store === null ? null : await sealedIn(store, config),
      registrations,
      lastDelivery: summary === null ? undefined : instantOf(summary.last_delivery_at),
      rejections: store === null ? undefined : await newestRejections(store),
      waiting:
        store === null || summary === null
          ? null
          : {
              failed: summary.events.failed,
              quarantined: summary.quarantined,
              gaps: summary.open_gaps_by.map(({ reason, kind }) => ({ reason, kind })),
              isPaused: (await readPause(store)) !== null,
            },
      kinds: summary?.kinds ?? null,
      unread:
        summary === null
          ? null
          : {
              gaps: summary.open_gaps_by.flatMap(({ reason, kind }) =>
                reason === 'no_record_id' && kind !== null ? [kind] : [],
              ),
              toSet: pointersToSet(summary.learned_pointers, config.idPointers),
            },
    };
  } finally {
    await opened.store?.close();
  }
}

interface Opened {
  exists: boolean;
  /** Open for writing, or null with the problem. */
  store: Store | null;
  problem: string | null;
  remedy: string | null;
  /** It ends "serve" as wrong settings do. */
  isSetting: boolean;
}

async function serviceOn({ databaseUrl }: Config, path: string | null, { exists, store }: Opened) {
  if (path !== null) return exists ? await holderOfDatabase(databaseUrl) : null;
  if (store === null) return undefined;
  const replicas = await livingReplicas(store, await clockOf(store));
  return replicas === 0 ? null : { replicas };
}

/** Without user and password. */
function serverOf({ databaseUrl, database }: Config): string {
  const { host, pathname } = new URL(databaseUrl);
  return `PostgreSQL, ${host}${pathname}, schema ${database.schema}`;
}

async function open(cli: Cli, config: Config, path: string | null): Promise<Opened> {
  const exists = path === null || existsSync(path);
  const none = { exists, store: null, problem: 'there is no database yet', remedy: null, isSetting: false };
  let store: Store | null = null;
  try {
    (await engines()).probePlace(config.databaseUrl);
    if (!exists) return none;
    // First to read only: opening for writing would migrate a database of another version.
    await withStore(cli, 'read', async () => {});
    // It asserts the write-ahead log and FULL, as for every connection that writes.
    store = await openForWriting(config);
    await store.checkWritable();
    return { exists, store, problem: null, remedy: null, isSetting: false };
  } catch (error) {
    await store?.close();
    const remedy = error instanceof MirrorError ? (error.remedy ?? null) : null;
    return {
      exists,
      store: null,
      problem: describeError(error),
      remedy: remedy ?? 'look at the file and its folder',
      isSetting: error instanceof UsageError && !(error instanceof NotMigrated),
    };
  }
}

function secretsOf(config: Config, registrations: readonly StoredRegistration[]): Findings['secrets'] {
  const settings = secretSettings(config, { wall: Date.now });
  return {
    configured: config.webhook.secrets().length,
    stored: registrations.filter((each) => standingOf(each, settings).standing === 'verifies').length,
    unusable: registrations.flatMap((each) => unusableSecret(each, settings) ?? []),
  };
}

async function sealedIn(store: Store, { credentialsKey }: Config): Promise<Findings['sealed']> {
  const present = await store.listSealed();
  const closed = present.filter(
    (text) => credentialsKey === null || openedWith(text, credentialsKey) === null,
  );
  return { open: present.length - closed.length, closed: closed.map(nameOf) };
}

function instantOf(iso: string | null): number | null {
  return iso === null ? null : Date.parse(iso);
}

/** How many are looked through for one that tells of the sender's clock: the kept ones of a busy day. */
const REJECTIONS_LOOKED_AT = 500;

async function newestRejections(store: Store): Promise<NonNullable<Findings['rejections']>> {
  const kept = await store.listRejections({ limit: REJECTIONS_LOOKED_AT });
  const newestOf = (isIt: (reason: string) => boolean) => {
    const found = kept.filter(({ reason }) => isIt(reason)).sort((a, b) => (a.at < b.at ? 1 : -1))[0];
    return found === undefined
      ? null
      : { id: found.id, at: Date.parse(found.at), reason: found.reason, t: found.t };
  };
  return { newest: newestOf(() => true), ofTime: newestOf((reason) => reason.startsWith('timestamp_')) };
}
