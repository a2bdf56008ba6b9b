import { UpstreamError } from '../../compliance/errors.ts';
import { MirrorError, UsageError } from '../../platform/errors.ts';
import { commandClient, complianceSettings } from '../client.ts';
import { configHere, openForWriting } from '../database.ts';
import { explain } from '../exit.ts';
import { DEFAULT_WAIT_MS, login } from '../login.ts';
import { aborted } from '../stop-signals.ts';
import { printable } from '../text.ts';
import type { Draft } from './draft.ts';
import { explore } from './explore.ts';
import { commandOf, makeKeys, save, setFound, settle, type Talk } from './talk.ts';

type Asked = 'address' | 'credentials';

/** Asks for the address and the credentials until both lists can be read, and shows what was found there. */
export async function reachApi(talk: Talk): Promise<void> {
  const { draft, asker, say } = talk;
  let ask: readonly Asked[] = ['address', 'credentials'];
  let hasSignedIn = false;
  let riskId: string | undefined;
  for (;;) {
    if (ask.includes('address')) await askForAddress(talk);
    if (ask.includes('credentials')) await askForCredentials(talk);
    riskId ??= await riskIdFor(talk);
    try {
      // The tokens of a sign-in are stored encrypted, which needs a key.
      if (draft.get('COMPLIANCE_AUTH') === 'oauth') await makeKeys(talk);
      await look(talk, riskId);
      return;
    } catch (error) {
      // The answers were checked one by one, so a UsageError is about a setting that nobody is asked for.
      const isAnswer = error instanceof MirrorError && !(error instanceof UsageError);
      if (!isAnswer || talk.signal.aborted) throw error;
      const isRefused = error instanceof UpstreamError && error.kind === 'unauthorized';
      if (isRefused && draft.get('COMPLIANCE_AUTH') === 'oauth' && !hasSignedIn) {
        // First the key is saved: what is encrypted with it outlives this process.
        await save(talk);
        await signIn(talk);
        hasSignedIn = true;
        ask = [];
        continue;
      }
      ask = blamed(error);
      // Settings of the environment are not asked for, so the same would fail again for ever.
      if (!asker.isPerson || ask.every((each) => draft.isFixed(nameOf(each, draft)))) throw error;
      say(explain(error).trimEnd());
    }
  }
}

/** The setting that the answer to `asked` goes into. */
function nameOf(asked: Asked, draft: Draft): string {
  if (asked === 'address') return 'COMPLIANCE_BASE_URL';
  const isKey = (draft.get('COMPLIANCE_AUTH') ?? 'api_key') === 'api_key';
  return isKey ? 'COMPLIANCE_API_KEY' : 'COMPLIANCE_CLIENT_SECRET';
}

/** Which answers may be the cause of the failure. */
function blamed(error: MirrorError): readonly Asked[] {
  if (!(error instanceof UpstreamError)) return ['address', 'credentials'];
  if (error.kind === 'unauthorized' || error.kind === 'forbidden') return ['credentials'];
  return ['address'];
}

async function look(talk: Talk, riskId: string): Promise<void> {
  const { say, signal } = talk;
  const cli = commandOf(talk);
  const config = configHere(cli, 'setup', 'it makes the settings and the database of a service here');
  const settings = complianceSettings(config);
  say(`\nReading from ${settings.baseUrl.href} …`);
  // Only a person's sign-in is stored in the database. Nothing else needs a database yet.
  const store = settings.auth === 'oauth' ? await openForWriting(cli, config) : null;
  try {
    const client = commandClient(cli, config, store, {
      actor: 'setup',
      needs: 'read',
      silent: true,
      observe: () => {
        talk.sent += 1;
      },
    });
    const found = await explore({
      client,
      config,
      paging: settings.paging,
      signal,
      riskId: riskId === '' ? null : riskId,
    });
    for (const line of found.says) say(`  ${printable(line)}`);
    for (const line of found.warnings) say(`  ! ${printable(line)}`);
    for (const [name, value] of Object.entries(found.settings)) setFound(talk, name, value);
  } finally {
    await store?.close();
  }
}

const AUTH_URL = 'Address of its authorization server, without /oauth/token';

const askForAddress = (talk: Talk) =>
  settle(talk, 'COMPLIANCE_BASE_URL', 'Address of the API, ending in /v1', 'baseUrl');

async function askForCredentials(talk: Talk): Promise<void> {
  const ways = 'How to authenticate: api_key, oauth (a person consents), service_account';
  await settle(talk, 'COMPLIANCE_AUTH', ways, 'auth');
  const auth = talk.draft.get('COMPLIANCE_AUTH') ?? 'api_key';
  if (auth === 'api_key') return await settle(talk, 'COMPLIANCE_API_KEY', 'API key', 'apiKeyFile');
  await settle(talk, 'COMPLIANCE_AUTH_URL', AUTH_URL, 'authUrl');
  await settle(talk, 'COMPLIANCE_CLIENT_ID', 'Client id', 'clientId');
  await settle(talk, 'COMPLIANCE_CLIENT_SECRET', 'Client secret', 'clientSecretFile');
  if (auth === 'oauth')
    await settle(talk, 'COMPLIANCE_REDIRECT_URI', 'Redirect address of that client', 'redirectUri');
}

async function signIn(talk: Talk): Promise<void> {
  const { options, asker, signal } = talk;
  asker.release();
  const signedIn = login(commandOf(talk), {
    // To register, setup needs the scope "write".
    write: options.register,
    paste: options.paste,
    browser: true,
    wait: DEFAULT_WAIT_MS,
  });
  // `login` itself does not end at a signal.
  await Promise.race([signedIn, aborted(signal).then(() => signal.throwIfAborted())]);
}

/** Empty: none is known. */
async function riskIdFor({ asker, options }: Talk): Promise<string> {
  if (options.riskId !== undefined || !asker.isPerson) return options.riskId ?? '';
  const text = 'Id of a risk assessment to try (they cannot be listed; Enter: none)';
  return await asker.ask({ text, flag: '--risk-id' });
}
