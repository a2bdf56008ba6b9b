import { loadConfig } from '../../config.ts';
import { MirrorError, UsageError } from '../../errors.ts';
import { diagnoseRefusal, type Explained } from '../../receive/diagnosis-refusal.ts';
import { diagnosisSettings } from '../../service/candidate-secrets.ts';
import type { QuarantineReport } from '../../store/reports.ts';
import type { Refusal, Store } from '../../store/store.ts';
import type { Cli } from '../cli.ts';
import { withStore } from '../database.ts';
import { candidates, type GivenSecrets } from './secrets.ts';

/** `7`, `refusal:7` or `quarantine:7`. */
const ID = /^(?:(refusal|quarantine)s?[:/])?(\d{1,15})$/;

/** Explains a delivery that the service turned away or put into quarantine. */
export async function keptDelivery(cli: Cli, id: string, given: GivenSecrets): Promise<Explained> {
  const [, list, number] = ID.exec(id) ?? [];
  if (number === undefined) {
    throw new UsageError(
      '--delivery takes a number, refusal:NUMBER or quarantine:NUMBER',
      'see "quarantine list"',
    );
  }
  return await withStore(cli, async (store) => {
    const refusal = list === 'quarantine' ? null : await store.readRefusal(Number(number));
    const quarantined = list === 'refusal' ? null : await store.showQuarantined(Number(number));
    if (refusal !== null && quarantined !== null) {
      throw new UsageError(
        `there is a refused and a quarantined delivery with the number ${number}`,
        `say refusal:${number} or quarantine:${number}`,
      );
    }
    if (refusal !== null) return await explainRefusal(cli, store, refusal, given);
    if (quarantined !== null) return explainQuarantined(quarantined);
    throw new MirrorError('not_found', `no delivery ${id} is kept`, {
      hint: 'the last 100 refusals are, and what is in "quarantine list"',
    });
  });
}

async function explainRefusal(
  cli: Cli,
  store: Store,
  refusal: Refusal,
  given: GivenSecrets,
): Promise<Explained> {
  const config = loadConfig(cli.env);
  const secrets = refusal.body === null ? [] : candidates(config, await store.listRegistrations(), given);
  return diagnoseRefusal(refusal, secrets, diagnosisSettings(config));
}

const RELEASE =
  'What it was about is read from the API. Look at the body, then release it: "quarantine release".';

/** By the reason's first words; the rest says it by itself. */
const QUARANTINED: Readonly<Record<string, string>> = {
  empty_body: 'The body is empty.',
  invalid_utf8: 'The body is not UTF-8.',
  byte_order_mark: 'The body begins with a byte order mark, which JSON does not allow.',
  not_json: 'The body is not JSON.',
  not_an_object: 'The body is JSON, and no object.',
  nested_too_deep: 'The body is nested deeper than any event.',
  conflicting_content: 'An event with the same id came before, and said something else.',
};

function explainQuarantined({ reason }: QuarantineReport): Explained {
  const what = QUARANTINED[reason] ?? `The body is not an event: ${reason.replaceAll('_', ' ')}.`;
  return {
    healthy: false,
    causes: [
      { code: reason, what: `Its signature is right. ${what}`, remedy: `Tell the sender. ${RELEASE}` },
    ],
    fit: null,
  };
}
