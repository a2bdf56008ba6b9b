import { z } from 'zod';
import type { QuarantineReport, RejectionReport } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import type { OpsContext, RejectionDiagnosis } from '../context.ts';
import { answerTo } from '../delivery-answers.ts';
import { bytes as bytesWords, codeWords, figure } from '../words.ts';
import { type Answers, missing } from './answers.tsx';
import { Body } from './body.tsx';
import { Frame } from './layout.tsx';
import { type List, numbered } from './list-page.tsx';
import { ActionForm, Facts, From, Instant, SignedAt, Table, Title } from './pieces.tsx';
import { rowNumber } from './query.ts';

const noFilters = z.strictObject({});

export const quarantineList = ({
  store,
}: Pick<OpsContext, 'store'>): List<typeof noFilters, QuarantineReport> => ({
  name: 'Quarantine',
  note: 'Deliveries whose signature is right, and whose content no event can be made of.',
  noun: ['delivery', 'deliveries'],
  filters: noFilters,
  read: async (_, paging) => numbered(await store.list('quarantine', paging), paging, ({ id }) => id),
  empty: () =>
    'Nothing is in quarantine. A signed delivery that is no event would stand here, with its bytes.',
  table: (rows) => (
    <Table
      label="Quarantine"
      rows={rows}
      columns={[
        ['Number', (row) => <a href={`/quarantine/${row.id}`}>Delivery {row.id}</a>],
        ['Received', (row) => <Instant at={row.received_at} />, 'wide'],
        ['Why', (row) => codeWords(row.reason), 'full'],
        [
          'Released',
          ({ released_at: at }) =>
            at === null ? <span class="state pending">not yet</span> : <Instant at={at} />,
          'wide',
        ],
      ]}
    />
  ),
});

export const rejectionsList = ({
  store,
}: Pick<OpsContext, 'store'>): List<typeof noFilters, RejectionReport> => ({
  name: 'Rejections',
  title: 'Rejected deliveries',
  note: 'Rejected before anything in them was believed. Of each reason, sender and minute the first two are kept, and the newest, which stands for the others: a flood does not push out what another sent.',
  noun: ['rejection', 'rejections'],
  filters: noFilters,
  read: async (_, paging) => numbered(await store.list('rejections', paging), paging, ({ id }) => id),
  empty: () =>
    'None. A delivery whose signature is missing, wrong or late would stand here, with what is wrong with it.',
  table: (rows) => (
    <Table
      label="Rejected deliveries"
      rows={rows}
      columns={[
        ['Number', (row) => <a href={`/rejections/${row.id}`}>Rejection {row.id}</a>],
        ['At', (row) => <Instant at={row.at} />, 'wide'],
        ['Why', (row) => codeWords(row.reason), 'wide'],
        ['From', (row) => <From address={row.address} />, 'wide'],
        ['Count', (row) => figure(row.times), 'n'],
        ['Size', (row) => bytesWords(row.bytes), 'n'],
        [
          'Signed at',
          ({ t }) => (t === null ? <span class="quiet">not said</span> : <SignedAt t={t} />),
          'wide',
        ],
      ]}
    />
  ),
});

export const quarantinedPage =
  (context: OpsContext, { html }: Answers) =>
  async (c: OpsHandlerContext): Promise<Response> => {
    const id = rowNumber(c.req.param('id'));
    const delivery = id === null ? null : await context.store.show('quarantine', id);
    if (id === null || delivery === null) {
      return missing('There is no delivery of this number in quarantine.');
    }
    const { receiver } = context;
    return html(c, <QuarantinedPage {...{ delivery, receiver }} />);
  };

export const rejectionPage =
  (context: OpsContext, { html }: Answers) =>
  async (c: OpsHandlerContext): Promise<Response> => {
    const id = rowNumber(c.req.param('id'));
    const rejection = id === null ? null : await context.store.show('rejections', id);
    if (id === null || rejection === null) {
      return missing('This rejection is not kept any more, or never was.');
    }
    const { receiver } = context;
    const diagnosis = await context.diagnose(id);
    return html(c, <RejectionPage {...{ diagnosis, receiver, rejection }} />);
  };

const bytesOf = ({ body_base64: body }: Pick<RejectionReport, 'body_base64'>): Buffer | null =>
  body === null ? null : Buffer.from(body, 'base64');

function QuarantinedPage({
  delivery,
  receiver,
}: {
  delivery: QuarantineReport;
  receiver: OpsContext['receiver'];
}) {
  return (
    <Frame title={`Quarantine ${delivery.id}`} current="Quarantine">
      <Title>Delivery {delivery.id} in quarantine</Title>
      <Facts
        facts={[
          ['Why', codeWords(delivery.reason)],
          ['Received', <Instant at={delivery.received_at} />],
          ['From', delivery.address === null ? 'not known' : <code>{delivery.address}</code>],
          ['Answer', <Answer outcome="quarantined" reason={delivery.reason} />],
          ['Signed at', <SignedAt t={delivery.t} />],
          ['SHA-256', <code>{delivery.body_sha256}</code>],
          ['Released', delivery.released_at === null ? 'not yet' : <Instant at={delivery.released_at} />],
        ]}
      />
      <p class="note">
        Releasing asks the API for what it was about, as far as that can be told, and marks it as seen to.
        Nothing of its content gets into the tables.
      </p>
      {delivery.released_at === null ? (
        <ActionForm action="/actions/release" className="actions">
          <input type="hidden" name="id" value={String(delivery.id)} />
          <button class="button" type="submit" id="release">
            Release
          </button>
        </ActionForm>
      ) : null}
      <Body body={bytesOf(delivery)} receiver={receiver} trimmed />
    </Frame>
  );
}

const NOT_EXAMINED: RejectionDiagnosis = { causes: [], fit: null };
const NOT_KEPT = 'It is not kept any more.';
const BUSY = 'Others are being examined. Reload this page in a few seconds.';
const MENDED = 'With the settings of now it would be taken: what was wrong has been mended since.';

function RejectionPage({
  rejection,
  diagnosis,
  receiver,
}: {
  rejection: RejectionReport;
  receiver: OpsContext['receiver'];
  diagnosis: RejectionDiagnosis | 'busy' | null;
}) {
  const { causes, fit } = typeof diagnosis === 'object' && diagnosis !== null ? diagnosis : NOT_EXAMINED;
  const fits = Object.entries(fit ?? {});
  return (
    <Frame title={`Rejection ${rejection.id}`} current="Rejections">
      <Title>Rejection {rejection.id}</Title>
      <Facts
        facts={[
          ['Rejected for', codeWords(rejection.reason)],
          ['Arrived', <Instant at={rejection.at} />],
          ['From', rejection.address === null ? 'not known' : <code>{rejection.address}</code>],
          ['Answer', <Answer outcome="rejected" reason={rejection.reason} />],
          ['Size', `${figure(rejection.bytes)} bytes`],
          rejection.body_sha256 === null ? null : ['SHA-256', <code>{rejection.body_sha256}</code>],
          ['Signature header', rejection.header === null ? 'none' : <code>{rejection.header}</code>],
        ]}
      />
      <h2>What doctor says</h2>
      {causes.length === 0 ? (
        <p class="note">{diagnosis === null ? NOT_KEPT : diagnosis === 'busy' ? BUSY : MENDED}</p>
      ) : (
        <ul class="causes">
          {causes.map(({ code, what, remedy }) => (
            <li>
              <p>
                {what} <code>{code}</code>
              </p>
              <p class="lead">{remedy}</p>
            </li>
          ))}
        </ul>
      )}
      {fits.length === 0 ? null : (
        <>
          <h2>What its signature fits</h2>
          <Facts facts={fits.map(([name, value]) => [codeWords(name), <code>{value}</code>] as const)} />
        </>
      )}
      <Body body={bytesOf(rejection)} receiver={receiver} trimmed={false} />
    </Frame>
  );
}

function Answer(delivery: Parameters<typeof answerTo>[0]) {
  const { status, signature } = answerTo(delivery);
  return `${status}, signature ${codeWords(signature)}`;
}
