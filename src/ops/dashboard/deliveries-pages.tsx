import type { QuarantineReport, RefusalReport } from '../../store/reports.ts';
import type { Identity } from '../access.ts';
import type { RefusalDiagnosis } from '../context.ts';
import { HEX_SHOWN_BYTES, hexDump, utf8Text } from '../texts.ts';
import { bytes as bytesWords, codeWords, figure } from '../words.ts';
import { Frame } from './layout.tsx';
import { ActionForm, Empty, Facts, Instant, Pager, Pre, Table, Text, Title, Told } from './pieces.tsx';

interface List<Row> {
  rows: readonly Row[];
  identity: Identity;
  now: number;
  next: string | null;
  first: string | null;
}

export function QuarantinePage({ rows, identity, now, next, first }: List<QuarantineReport>) {
  return (
    <Frame title="Quarantine" current="Quarantine" identity={identity} now={now}>
      <Title note="Deliveries whose signature is right, and whose content no event can be made of.">
        Quarantine
      </Title>
      {rows.length === 0 ? (
        <Empty>
          Nothing is in quarantine. A signed delivery that is no event would stand here, with its bytes.
        </Empty>
      ) : (
        <Table label="Quarantine" head={['Number', 'Received', 'Why', 'Released']}>
          {rows.map((row) => (
            <tr>
              <th scope="row">
                <a href={`/quarantine/${row.id}`}>Delivery {row.id}</a>
              </th>
              <td class="wide" data-label="Received">
                <Instant at={row.received_at} now={now} />
              </td>
              <td class="full" data-label="Why">
                {codeWords(row.reason)}
              </td>
              <td class="wide" data-label="Released">
                {row.released_at === null ? (
                  <span class="state pending">not yet</span>
                ) : (
                  <Instant at={row.released_at} now={now} />
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Pager next={next} first={first} words="Older deliveries" />
    </Frame>
  );
}

export function QuarantinedPage({
  delivery,
  body,
  identity,
  now,
  told,
}: {
  delivery: QuarantineReport;
  body: Uint8Array | null;
  identity: Identity;
  now: number;
  told: string | null;
}) {
  return (
    <Frame title={`Quarantine ${delivery.id}`} current="Quarantine" identity={identity} now={now}>
      <Title>Delivery {delivery.id} in quarantine</Title>
      <Told text={told} />
      <Facts
        facts={[
          ['Why', codeWords(delivery.reason)],
          ['Received', <Instant at={delivery.received_at} now={now} />],
          ['Signed at', <code>t={delivery.t}</code>],
          ['SHA-256', <code>{delivery.body_sha256}</code>],
          [
            'Released',
            delivery.released_at === null ? 'not yet' : <Instant at={delivery.released_at} now={now} />,
          ],
        ]}
      />
      <p class="note">
        Releasing asks the API for what it was about, as far as that can be told, and marks it as seen to.
        Nothing of its content gets into the tables.
      </p>
      {identity.role === 'operate' && delivery.released_at === null ? (
        <ActionForm action="/actions/release" csrf={identity.csrf} className="actions">
          <input type="hidden" name="id" value={String(delivery.id)} />
          <button class="button" type="submit" id="release">
            Release
          </button>
        </ActionForm>
      ) : null}
      <Body body={body} trimmed />
    </Frame>
  );
}

export function RefusalsPage({ rows, identity, now, next, first }: List<RefusalReport>) {
  return (
    <Frame title="Refusals" current="Refusals" identity={identity} now={now}>
      <Title note="The last deliveries that were turned away, before anything in them was believed. A hundred are kept.">
        Refusals
      </Title>
      {rows.length === 0 ? (
        <Empty>
          None. A delivery whose signature is missing, wrong or late would stand here, with what is wrong with
          it.
        </Empty>
      ) : (
        <Table label="Refusals" head={['Number', 'At', 'Why', 'Size', 'Signed at']} figures={['Size']}>
          {rows.map((row) => (
            <tr>
              <th scope="row">
                <a href={`/refusals/${row.id}`}>Refusal {row.id}</a>
              </th>
              <td class="wide" data-label="At">
                <Instant at={row.at} now={now} />
              </td>
              <td class="wide" data-label="Why">
                {codeWords(row.reason)}
              </td>
              <td class="n" data-label="Size">
                {bytesWords(row.bytes)}
              </td>
              <td class="wide" data-label="Signed at">
                {row.t === null ? <span class="quiet">not said</span> : <code>t={row.t}</code>}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Pager next={next} first={first} words="Older refusals" />
    </Frame>
  );
}

export interface KeptRefusal {
  id: number;
  reason: string;
  t: string | null;
  bytes: number;
  bodySha256: string | null;
  header: string | null;
  body: Uint8Array | null;
  wall: number;
}

const NOT_EXAMINED: RefusalDiagnosis = { causes: [], fit: null };
const NOT_KEPT = 'It is not kept any more.';
const BUSY = 'Others are being examined. Reload this page in a few seconds.';
const MENDED = 'With the settings of now it would be taken: what was wrong has been mended since.';

export function RefusalPage({
  refusal,
  diagnosis,
  identity,
  now,
}: {
  refusal: KeptRefusal;
  diagnosis: RefusalDiagnosis | 'busy' | null;
  identity: Identity;
  now: number;
}) {
  const { causes, fit } = typeof diagnosis === 'object' && diagnosis !== null ? diagnosis : NOT_EXAMINED;
  const fits = Object.entries(fit ?? {});
  return (
    <Frame title={`Refusal ${refusal.id}`} current="Refusals" identity={identity} now={now}>
      <Title>Refusal {refusal.id}</Title>
      <Facts
        facts={[
          ['Refused for', codeWords(refusal.reason)],
          ['Arrived', <Instant at={new Date(refusal.wall).toISOString()} now={now} />],
          ['Size', `${figure(refusal.bytes)} bytes`],
          refusal.bodySha256 === null ? null : ['SHA-256', <code>{refusal.bodySha256}</code>],
          ['Signature header', refusal.header === null ? 'none' : <code>{refusal.header}</code>],
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
      <Body body={refusal.body} trimmed={false} />
    </Frame>
  );
}

function Body({ body, trimmed }: { body: Uint8Array | null; trimmed: boolean }) {
  if (body === null) {
    return (
      <>
        <h2>Body</h2>
        <p class="note">
          {trimmed
            ? 'Trimmed: it is older than RETENTION_BODY_DAYS.'
            : 'Not kept: it was too large, or nothing could be tried on it.'}
        </p>
      </>
    );
  }
  const text = utf8Text(body);
  return (
    <>
      <h2>Body</h2>
      {text === null ? (
        <p class="note">It is not UTF-8.</p>
      ) : text === '' ? (
        <p class="note">It is empty.</p>
      ) : (
        <Text text={text} label="Body" />
      )}
      {body.length === 0 ? null : (
        <details {...(text === null ? { open: true } : {})}>
          <summary>
            In hex{body.length > HEX_SHOWN_BYTES ? `, the first ${figure(HEX_SHOWN_BYTES)} bytes` : ''}
          </summary>
          <Pre text={hexDump(body)} label="Body in hex" />
        </details>
      )}
    </>
  );
}
