import { diagnoseRejection, type Explained } from '../../doctor/diagnosis-rejection.ts';
import { allAtOnce } from '../../doctor/diagnosis-steps.ts';
import { type Config, loadConfig } from '../../platform/config.ts';
import { MirrorError, UsageError } from '../../platform/errors.ts';
import { PAGE_LIMIT_MAX, type RejectionReport } from '../../store/reports.ts';
import type { Rejection, Store } from '../../store/store.ts';
import type { Cli } from '../cli.ts';
import { withStore } from '../database.ts';
import { explainEvent, explainQuarantined } from './accepted.ts';
import { candidates, type GivenSecrets, headersIn } from './recorded.ts';

export interface KeptOptions extends GivenSecrets {
  /** Values of signed headers, of which none is kept. */
  header?: string[];
}

const LISTS = ['rejection', 'quarantine', 'event'] as const;
type List = (typeof LISTS)[number];

/** `rejection:7`, `quarantines/7`, `event:evt_7`; anything else is looked for in all three. */
const PREFIXED = /^(rejection|quarantine|event)s?[:/](.+)$/s;
/** Ids of the two numbered lists. */
const NUMBER = /^\d{1,15}$/;

/** Explains a delivery that the service rejected, put into quarantine, or accepted. */
export async function keptDelivery(cli: Cli, given: string, options: KeptOptions): Promise<Explained> {
  const [, prefix, rest] = PREFIXED.exec(given) ?? [];
  return await withStore(cli, async (store) => {
    const config = loadConfig(cli.env);
    // An event's own id may begin like a prefix, so the whole is tried as one first.
    const whole = prefix === undefined ? null : await found(store, given, ['event']);
    const matches =
      whole !== null && whole.length > 0
        ? whole
        : await found(store, rest ?? given, prefix === undefined ? LISTS : [prefix as List]);
    const [match, ...others] = matches;
    if (match === undefined) return await explainRejectedId(cli, store, config, rest ?? given, options);
    if (others.length > 0) {
      const names = matches.map(({ list }) => `${list}:${given}`).join(' or ');
      throw new UsageError(`several deliveries go by "${given}"`, `say ${names}`);
    }
    return await match.explain(cli, config, options);
  });
}

interface Match {
  list: List;
  explain(cli: Cli, config: Config, options: KeptOptions): Promise<Explained>;
}

async function found(store: Store, id: string, lists: readonly List[]): Promise<Match[]> {
  const number = NUMBER.test(id) ? Number(id) : null;
  const matches: Match[] = [];
  if (lists.includes('rejection') && number !== null) {
    const rejection = await store.readRejection(number);
    if (rejection !== null) {
      const explain: Match['explain'] = (_, config, options) =>
        explainRejection(store, config, rejection, options);
      matches.push({ list: 'rejection', explain });
    }
  }
  if (lists.includes('quarantine') && number !== null) {
    const row = await store.showQuarantined(number);
    if (row !== null) matches.push({ list: 'quarantine', explain: async () => explainQuarantined(row) });
  }
  if (lists.includes('event')) {
    const event = await store.showEvent(id);
    if (event !== null) {
      const rejectedAs = async () => (await rejectionOfEvent(store, id))?.id ?? null;
      const explain: Match['explain'] = async (_, config) =>
        explainEvent(event, config.webhook, await rejectedAs());
      matches.push({ list: 'event', explain });
    }
  }
  return matches;
}

/** An id that no event has may be in the body of a delivery that was rejected. */
async function explainRejectedId(
  cli: Cli,
  store: Store,
  config: Config,
  id: string,
  options: KeptOptions,
): Promise<Explained> {
  const rejected = await rejectionOfEvent(store, id);
  if (rejected === null) {
    throw new MirrorError('not_found', `no delivery ${id} is kept`, {
      remedy: 'events are, what "rejections list" shows, and what is in "quarantine list"',
    });
  }
  cli.err.write(`Rejected, as rejection:${rejected.id}\n`);
  return await explainRejection(store, config, rejected.rejection, options);
}

async function explainRejection(
  store: Store,
  config: Config,
  rejection: Rejection,
  options: KeptOptions,
): Promise<Explained> {
  const secrets = rejection.body === null ? [] : candidates(config, await store.listRegistrations(), options);
  const headers = headersIn(options.header ?? [], config.webhook.header);
  if (headers.has(config.webhook.header)) {
    throw new UsageError(
      'the signature header of a delivery that is kept is known',
      "--header takes others beside --delivery, as 'Name: value'",
    );
  }
  return allAtOnce(diagnoseRejection(rejection, secrets, config.webhook, headers));
}

/** The newest rejected delivery whose body, as far as it was kept, names this event. */
async function rejectionOfEvent(
  store: Store,
  eventId: string,
): Promise<{ id: number; rejection: Rejection } | null> {
  let rows: RejectionReport[];
  let after: number | undefined;
  do {
    rows = await store.listRejections({
      limit: PAGE_LIMIT_MAX,
      ...(after === undefined ? {} : { after: String(after) }),
    });
    for (const { id, reason } of rows) {
      if (!keepsBody(reason)) continue;
      const rejection = await store.readRejection(id);
      if (rejection?.body != null && idIn(rejection.body) === eventId) return { id, rejection };
    }
    after = rows.at(-1)?.id;
  } while (rows.length === PAGE_LIMIT_MAX);
  return null;
}

function idIn(body: Uint8Array): unknown {
  try {
    const document: unknown = JSON.parse(
      Buffer.from(body)
        .toString('utf8')
        .replace(/^\ufeff/, ''),
    );
    return typeof document === 'object' && document !== null && 'id' in document ? document.id : null;
  } catch {
    return null;
  }
}

/** The receiver keeps bodies on which a signature can be tried: none of the others need to be read. */
function keepsBody(reason: string): boolean {
  return reason === 'bad_signature' || reason.startsWith('timestamp_');
}
