import { idCandidatesIn } from '../../compliance/candidates.ts';
import { COLLECTIONS, type ComplianceClient, lookForApi, type Page } from '../../compliance/client.ts';
import { isNotTaken, UpstreamError, type UpstreamErrorKind } from '../../compliance/errors.ts';
import type { ListedKind } from '../../compliance/kinds.ts';
import {
  examinePaging,
  findingText,
  firstPageOf,
  type PagingSettings,
  type SeenPage,
} from '../../compliance/paging.ts';
import {
  type IdPointers,
  type JsonObject,
  pointersSettingOf,
  recordIdIn,
} from '../../compliance/pointers.ts';
import { messageIn } from '../../compliance/registration.ts';
import { count, kindPlural, sentenceCase } from '../../ops/words.ts';
import { MirrorError, UsageError } from '../../platform/errors.ts';
import { commandClient, complianceSettings } from '../client.ts';
import { configHere, openForWriting } from '../database.ts';
import { DEFAULT_WAIT_MS, login } from '../login.ts';
import { aborted } from '../stop-signals.ts';
import { commandOf, makeKeys, save, setFound, settle, type Talk } from './talk.ts';

/** Asks for the address and the credentials, tries each at once, and takes what the first pages show. */
export async function reachApi(talk: Talk): Promise<void> {
  let isSignedIn = false;
  for (let ask: 'address' | 'credentials' | null = 'address'; ; ) {
    try {
      if (ask === 'address') await settleAddress(talk);
      if (ask !== null) await settleCredentials(talk);
      // The tokens of a sign-in are stored encrypted, which needs a key.
      if (authOf(talk) === 'oauth') await makeKeys(talk);
      return await readFirstPages(talk);
    } catch (error) {
      const isRefused =
        error instanceof UpstreamError && (error.kind === 'unauthorized' || error.kind === 'forbidden');
      ask = error instanceof UpstreamError && !isRefused ? 'address' : 'credentials';
      if (isRefused && authOf(talk) === 'oauth' && !isSignedIn) {
        // First the key is saved: what is encrypted with it outlives this process.
        await save(talk);
        await signIn(talk);
        isSignedIn = true;
        ask = null;
      } else {
        sayUnlessFinal(talk, error, ask === 'address' ? 'COMPLIANCE_BASE_URL' : secretOf(talk));
      }
    }
  }
}

const authOf = ({ draft }: Talk) => draft.held('COMPLIANCE_AUTH') ?? 'api_key';

const secretOf = (talk: Talk) =>
  authOf(talk) === 'api_key' ? 'COMPLIANCE_API_KEY' : 'COMPLIANCE_CLIENT_SECRET';

/** Says what is wrong with an answer of the person. Throws it if nobody can give another one. */
function sayUnlessFinal({ asker, draft, signal }: Talk, error: unknown, setting: string): void {
  // A UsageError is about a setting that nobody is asked for, because the answers were checked one by one.
  const isAnswer = error instanceof MirrorError && !(error instanceof UsageError) && error.code !== 'stopped';
  if (!isAnswer || !asker.isPerson || draft.isFixed(setting) || signal.aborted) throw error;
  asker.say(error.message, 'bad');
  const said = error instanceof UpstreamError && messageIn(error.excerpt ?? '');
  if (said) asker.say(`The service says: ${said}`);
  if (error.remedy !== undefined) asker.say(error.remedy);
}

async function settleAddress(talk: Talk): Promise<void> {
  for (const name = 'COMPLIANCE_BASE_URL'; ; ) {
    await settle(talk, name);
    try {
      await tryAddress(talk, new URL(talk.draft.held(name)!));
      return talk.asker.say('There is an API.', 'good');
    } catch (error) {
      sayUnlessFinal(talk, error, name);
    }
  }
}

/** What came instead of an API, by the kind of its error. Of any other kind is only what an API answers to somebody unknown. */
const NO_API: Partial<Record<UpstreamErrorKind, [what: string, remedy: string]>> = {
  network: ['gives no answer', 'Check the host and the port, and that the service runs.'],
  timeout: ['gives no answer', 'Check the host and the port, and that the service runs.'],
  no_json: ['is a web page, not an API', 'Often the API has a host of its own.'],
  unexpected_status: ['is not there', 'The API is somewhere else.'],
  server: ['fails', 'Try again, or check the address.'],
};

async function tryAddress({ signal }: Talk, base: URL): Promise<void> {
  const failure = await lookForApi(base, signal);
  signal.throwIfAborted();
  const [what, remedy] = (failure !== null && !isNotTaken(failure) && NO_API[failure.kind]) || [];
  if (what === undefined) return;
  const said = failure!.message.replace(/^[^:]*: /, '');
  throw new MirrorError('no_api', `${base.href}${COLLECTIONS.policy} ${what}: ${said}.`, { remedy });
}

const WAYS = [
  ['api_key', 'an API key'],
  ['oauth', 'OAuth: a person consents in a browser'],
  ['service_account', 'a service account'],
] as const;

async function settleCredentials(talk: Talk): Promise<void> {
  await settle(talk, 'COMPLIANCE_AUTH', { choices: WAYS });
  const auth = authOf(talk);
  if (auth === 'api_key') return await settle(talk, 'COMPLIANCE_API_KEY');
  await settle(talk, 'COMPLIANCE_AUTH_URL');
  await settle(talk, 'COMPLIANCE_CLIENT_ID');
  await settle(talk, 'COMPLIANCE_CLIENT_SECRET');
  if (auth === 'oauth') await settle(talk, 'COMPLIANCE_REDIRECT_URI');
}

async function signIn(talk: Talk): Promise<void> {
  const { asker, options, signal } = talk;
  // To register, setup needs the scope "write".
  const write = asker.isPerson || options.url !== undefined;
  const wanted = { write, wait: DEFAULT_WAIT_MS };
  // `login` itself does not end at a signal.
  const signedIn = login(commandOf(talk), wanted);
  await Promise.race([signedIn, aborted(signal).then(() => signal.throwIfAborted())]);
}

type Query = Record<string, string>;
type ReadPage = (kind: ListedKind, query: Query) => Promise<Page>;

/** Reads the first pages of both lists, and sets what they need. */
async function readFirstPages(talk: Talk): Promise<void> {
  const { asker, signal } = talk;
  const cli = commandOf(talk);
  const config = configHere(cli, 'setup', 'it makes the settings and the database of a service here');
  const settings = complianceSettings(config);
  // Only a person's sign-in is stored in the database. Nothing else needs a database yet.
  const store = settings.auth === 'oauth' ? await openForWriting(cli, config) : null;
  let { pageSize } = settings.paging;
  // The size that the service takes, also where the environment says otherwise.
  const paging = () => ({ ...pagingOf(talk), pageSize });
  try {
    const client: ComplianceClient = commandClient(cli, config, store, {
      actor: 'setup',
      needs: 'read',
      silent: true,
      onPageSize: async (size) => {
        pageSize = size;
        setFound(talk, 'COMPLIANCE_PAGE_SIZE', String(size));
      },
    });
    const read: ReadPage = (kind, query) => client.listPage(kind, 0, { query, lane: 'person', signal });
    // A page size that is refused is halved until it is taken.
    const [first, call] = [firstPageOf(settings.paging), { lane: 'person', signal } as const];
    const [policies, vendors] = [
      await client.listPage('policy', first, call),
      await client.listPage('vendor', first, call),
    ];
    // The longer list shows more.
    const longer = vendors.objects.length > policies.objects.length ? 'vendor' : 'policy';
    await setPaging(talk, read, longer, paging);
    for (const kind of ['policy', 'vendor'] as const) {
      const { objects, meta } = await read(kind, pageQuery(paging(), firstPageOf(paging())));
      const inAll = meta.total === undefined ? '' : ` of ${meta.total}`;
      const name = sentenceCase(kindPlural(kind));
      asker.say(`${name}: the first page has ${count(objects.length, 'record')}${inAll}.`, 'good');
      setPointer(talk, kind, objects, config.idPointers);
    }
    asker.say('Risk assessments cannot be listed: each one comes in with its first event.');
  } finally {
    await store?.close();
  }
}

const pagingOf = ({ draft }: Talk) => complianceSettings(draft.config()).paging;

const pageQuery = ({ pageParam, perPageParam, pageSize }: PagingSettings, page: number): Query => ({
  [pageParam]: String(page),
  [perPageParam]: String(pageSize),
});

/** Sets where the ids of a list's rows are, if no pointer finds them. */
function setPointer(talk: Talk, kind: ListedKind, rows: readonly JsonObject[], present: IdPointers): void {
  const fits = (pointers: readonly string[]) => {
    const ids = rows.map((row) => recordIdIn(row, kind, { ...present, [kind]: pointers }));
    return ids.every((id) => id !== null) && new Set(ids).size === ids.length;
  };
  if (rows[0] === undefined || fits(present[kind])) return;
  const path = idCandidatesIn(rows[0], kind).find((candidate) => fits([candidate.path]))?.path;
  const setting = pointersSettingOf(kind);
  if (path === undefined)
    talk.asker.say(`No field has another id in each row: set ${setting} by hand.`, 'bad');
  else setFound(talk, setting, [path, ...present[kind]].join(','));
}

/** Each look can find one setting: the page's name, then its first number. */
const LOOKS = 3;

async function setPaging(
  talk: Talk,
  read: ReadPage,
  kind: ListedKind,
  pagingNow: () => PagingSettings,
): Promise<void> {
  for (let look = 0; look < LOOKS; look += 1) {
    const paging = pagingNow();
    const seen = async (page: number, query: Query | null): Promise<SeenPage | null> => {
      try {
        const { objects, meta, next } = await read(kind, query ?? pageQuery(paging, page));
        const idOf = (row: JsonObject) => recordIdIn(row, kind, talk.draft.config().idPointers);
        return { ids: objects.map((row) => idOf(row) ?? JSON.stringify(row)), meta, next };
      } catch (error) {
        // The service refuses these parameters, or its answer is no list.
        if (error instanceof UpstreamError && !error.retryable) return null;
        throw error;
      }
    };
    const finding = await examinePaging(paging, seen);
    if (finding === null) return;
    if (finding.set === null) return talk.asker.say(`Paging: ${findingText(finding)}`, 'bad');
    talk.asker.say(`Paging: ${finding.sentence}`);
    setFound(talk, finding.set.name, finding.set.value);
  }
}
