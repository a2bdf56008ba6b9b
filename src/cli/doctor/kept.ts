import { type Config, loadConfig } from '../../config.ts';
import { MirrorError, UsageError } from '../../errors.ts';
import { diagnoseRefusal, type Explained } from '../../receive/diagnosis-refusal.ts';
import { allAtOnce } from '../../receive/diagnosis-steps.ts';
import { diagnosisSettings } from '../../service/candidate-secrets.ts';
import type { Refusal, Store } from '../../store/store.ts';
import type { Cli } from '../cli.ts';
import { withStore } from '../database.ts';
import { explainEvent, explainQuarantined } from './accepted.ts';
import { headersIn } from './recorded.ts';
import { candidates, type GivenSecrets } from './secrets.ts';

export interface KeptOptions extends GivenSecrets {
  /** Values of signed headers, of which none is kept. */
  header?: string[];
}

const LISTS = ['refusal', 'quarantine', 'event'] as const;
type List = (typeof LISTS)[number];

/** `refusal:7`, `quarantines/7`, `event:evt_7`; anything else is looked for in all three. */
const PREFIXED = /^(refusal|quarantine|event)s?[:/](.+)$/s;
/** Ids of the two numbered lists. */
const NUMBER = /^\d{1,15}$/;

/** Explains a delivery that the service turned away, put into quarantine, or accepted. */
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
    if (match === undefined) return await explainRefusedId(cli, store, config, rest ?? given, options);
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
  if (lists.includes('refusal') && number !== null) {
    const refusal = await store.readRefusal(number);
    if (refusal !== null) {
      const explain: Match['explain'] = (_, config, options) =>
        explainRefusal(store, config, refusal, options);
      matches.push({ list: 'refusal', explain });
    }
  }
  if (lists.includes('quarantine') && number !== null) {
    const row = await store.showQuarantined(number);
    if (row !== null) matches.push({ list: 'quarantine', explain: async () => explainQuarantined(row) });
  }
  if (lists.includes('event')) {
    const event = await store.showEvent(id);
    if (event !== null) {
      const refusedAs = async () => (await refusalOfEvent(store, id))?.id ?? null;
      const explain: Match['explain'] = async (_, config) =>
        explainEvent(event, config.webhook, await refusedAs());
      matches.push({ list: 'event', explain });
    }
  }
  return matches;
}

/** An id that no event has may be in the body of a delivery that was turned away. */
async function explainRefusedId(
  cli: Cli,
  store: Store,
  config: Config,
  id: string,
  options: KeptOptions,
): Promise<Explained> {
  const refused = await refusalOfEvent(store, id);
  if (refused === null) {
    throw new MirrorError('not_found', `no delivery ${id} is kept`, {
      hint: 'events are, the last 100 refusals, and what is in "quarantine list"',
    });
  }
  cli.err.write(`Refused, as refusal:${refused.id}\n`);
  return await explainRefusal(store, config, refused.refusal, options);
}

async function explainRefusal(
  store: Store,
  config: Config,
  refusal: Refusal,
  options: KeptOptions,
): Promise<Explained> {
  const secrets = refusal.body === null ? [] : candidates(config, await store.listRegistrations(), options);
  const headers = headersIn(options.header ?? [], config.webhook.header);
  if (headers.has(config.webhook.header)) {
    throw new UsageError(
      'the signature header of a delivery that is kept is known',
      "--header takes others beside --delivery, as 'Name: value'",
    );
  }
  return allAtOnce(diagnoseRefusal(refusal, secrets, diagnosisSettings(config), headers));
}

/** As many as are kept. */
const REFUSALS = 100;

/** The newest refused delivery whose body, as far as it was kept, names this event. */
async function refusalOfEvent(
  store: Store,
  eventId: string,
): Promise<{ id: number; refusal: Refusal } | null> {
  for (const { id } of await store.listRefusals({ limit: REFUSALS })) {
    const refusal = await store.readRefusal(id);
    if (refusal?.body != null && idIn(refusal.body) === eventId) return { id, refusal };
  }
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
