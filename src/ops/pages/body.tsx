import { HEX_SHOWN_BYTES, hexDump, rawText, shownText, utf8Text } from '../body-text.ts';
import { figure } from '../words.ts';

/** The bytes of a delivery: as text if they are UTF-8, otherwise in hex. Null: `whyNone` says why they are not there. */
export function Body({ bytes, whyNone }: { bytes: Uint8Array | null; whyNone: string }) {
  const text = bytes === null ? null : utf8Text(bytes);
  return (
    <>
      <h2>Body</h2>
      {bytes === null ? (
        <p class="note">{whyNone}</p>
      ) : text === null ? (
        <>
          <p class="note">
            It is not UTF-8. In hex
            {bytes.length > HEX_SHOWN_BYTES ? `, the first ${figure(HEX_SHOWN_BYTES)} bytes` : ''}:
          </p>
          <Pre text={hexDump(bytes)} label="Body in hex" />
        </>
      ) : text === '' ? (
        <p class="note">It is empty.</p>
      ) : (
        <>
          <Text text={text} label="Body" />
          <details>
            <summary>As it was sent</summary>
            <Text text={text} label="Body as sent" raw />
          </details>
        </>
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
