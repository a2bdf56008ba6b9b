import { curlOf, HEX_SHOWN_BYTES, hexDump, rawText, shownText, utf8Text } from '../body-text.ts';
import type { OpsContext } from '../context.ts';
import { figure } from '../words.ts';

/** A body that is text: indented, as it was sent, and as a curl command that sends it again. */
export function BodyText({ text, receiver }: { text: string; receiver: OpsContext['receiver'] }) {
  const curl = curlOf(text, receiver);
  const isWhole = rawText(text).left === 0;
  return (
    <>
      <Text text={text} label="Body" />
      <details>
        <summary>As it was sent</summary>
        <Text text={text} label="Body as sent" raw />
        {isWhole ? <Copy what="the body" /> : null}
      </details>
      {curl === null ? null : (
        <details>
          <summary>As curl</summary>
          <Pre text={curl} label="Command" />
          <Copy what="the command" />
          <p class="note">
            Put the time in the place of TIMESTAMP, and the HMAC that belongs to it in the place of SIGNATURE.
          </p>
        </details>
      )}
    </>
  );
}

/** Copies the element before it. The script shows the button: without scripts it would do nothing. */
function Copy({ what }: { what: string }) {
  return (
    <button class="button copy" type="button" data-copy hidden>
      Copy {what}
    </button>
  );
}

type BodyOf = { body_base64: string | null; receiver: OpsContext['receiver']; whyNone: string };

/** The bytes of a delivery: as text where they are UTF-8, and in hex. */
export function Body({ body_base64, receiver, whyNone }: BodyOf) {
  if (body_base64 === null) {
    return (
      <>
        <h2>Body</h2>
        <p class="note">{whyNone}</p>
      </>
    );
  }
  const body = Buffer.from(body_base64, 'base64');
  const text = utf8Text(body);
  return (
    <>
      <h2>Body</h2>
      {text === null ? (
        <p class="note">It is not UTF-8.</p>
      ) : text === '' ? (
        <p class="note">It is empty.</p>
      ) : (
        <BodyText text={text} receiver={receiver} />
      )}
      {body.length === 0 ? null : (
        <details open={text === null}>
          <summary>
            In hex{body.length > HEX_SHOWN_BYTES ? `, the first ${figure(HEX_SHOWN_BYTES)} bytes` : ''}
          </summary>
          <Pre text={hexDump(body)} label="Body in hex" />
        </details>
      )}
    </>
  );
}

function Pre({ text, label }: { text: string; label: string }) {
  return (
    <section class="pre" aria-label={label} tabindex={0}>
      <pre>{text}</pre>
    </section>
  );
}

/** A text from outside, up to a limit. JSON is indented; `raw`: as it came. */
export function Text({ text, label, raw = false }: { text: string; label: string; raw?: boolean }) {
  const shown = raw ? rawText(text) : shownText(text);
  return (
    <>
      <Pre text={shown.text} label={shown.isIndented ? `${label}, indented` : label} />
      {shown.left === 0 ? null : (
        <p class="note">{figure(shown.left)} more characters are left out here; the API has them.</p>
      )}
    </>
  );
}
