import { existsSync } from 'node:fs';
import { pointersToSet } from '../../compliance/pointers.ts';
import type { Findings, StoredFindings } from '../../doctor/judge.ts';
import { type Config, configWarnings } from '../../platform/config.ts';
import { describeError, MirrorError, NotMigrated, UsageError } from '../../platform/errors.ts';
import { stateOfSecret } from '../../service/signing-secrets.ts';
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

/** Looks at everything that `judge` judges. It only reads; a token may be got or renewed on the way. */
export async function examine(cli: Cli, config: Config): Promise<Findings> {
  const path = await databasePath(config.databaseUrl);
  const { store, ...problem } = await open(cli, config, path);
  try {
    const { databaseExposure } = await engines();
    const registrations = (await store?.listRegistrations()) ?? [];
    return {
      now: Date.now(),
      warnings: configWarnings(cli.env),
      database: {
        path: path ?? serverOf(config),
        isServer: path === null,
        ...problem,
        exposure: store && (await databaseExposure(config.databaseUrl, config.database)),
      },
      service: await serviceOn(config, path, store),
      upstream: config.compliance && (await upstreamOf(cli, config, config.compliance, store)),
      settings: { ...config.sync, toleranceSeconds: config.webhook.toleranceSeconds },
      receiver: { host: config.host, port: config.port },
      secrets: secretsOf(config, registrations),
      stored: store && (await storedIn(store, config, registrations)),
    };
  } finally {
    await store?.close();
  }
}

/** How many are searched for one that shows the sender's clock: as many as a busy day keeps. */
const REJECTIONS_LOOKED_AT = 500;

async function storedIn(
  store: Store,
  { credentialsKey, idPointers }: Config,
  registrations: readonly StoredRegistration[],
): Promise<StoredFindings> {
  const summary = await store.summary();
  const sealed = await store.listSealed();
  const closed = sealed.filter(
    (text) => credentialsKey === null || openedWith(text, credentialsKey) === null,
  );
  return {
    summary,
    isPaused: (await readPause(store)) !== null,
    registrations,
    sealed: { open: sealed.length - closed.length, closed: closed.map(nameOf) },
    rejections: await store.list('rejections', { limit: REJECTIONS_LOOKED_AT }),
    toSet: pointersToSet(summary.learned_pointers, idPointers),
  };
}

/** Undefined: only the server knows, and it cannot be asked. */
async function serviceOn({ databaseUrl }: Config, path: string | null, store: Store | null) {
  if (path !== null) return existsSync(path) ? await holderOfDatabase(databaseUrl) : null;
  if (store === null) return undefined;
  const replicas = await livingReplicas(store, await clockOf(store));
  return replicas === 0 ? null : { replicas };
}

/** Without user and password. */
function serverOf({ databaseUrl, database }: Config): string {
  const { host, pathname } = new URL(databaseUrl);
  return `PostgreSQL, ${host}${pathname}, schema ${database.schema}`;
}

interface Opened extends Pick<Findings['database'], 'problem' | 'remedy' | 'isSetting'> {
  /** Open for writing, or null with the problem. */
  store: Store | null;
}

async function open(cli: Cli, config: Config, path: string | null): Promise<Opened> {
  let store: Store | null = null;
  try {
    (await engines()).probePlace(config.databaseUrl);
    if (path !== null && !existsSync(path)) {
      return { store, problem: 'there is no database yet', remedy: null, isSetting: false };
    }
    // First to read only: opening for writing would migrate a database of another version.
    await withStore(cli, 'read', async () => {});
    // It asserts the write-ahead log and FULL, as for every connection that writes.
    store = await openForWriting(config);
    await store.checkWritable();
    return { store, problem: null, remedy: null, isSetting: false };
  } catch (error) {
    await store?.close();
    const remedy = error instanceof MirrorError ? error.remedy : undefined;
    return {
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
    stored: registrations.filter((each) => stateOfSecret(each, settings).state === 'verifies').length,
    unusable: registrations.flatMap((each) => unusableSecret(each, settings) ?? []),
  };
}
