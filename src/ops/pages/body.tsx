import { curlOf, rawText } from '../body-text.ts';
import { Pre, Text } from './pieces.tsx';

/** A body that is text: as people read it, as it came, and as a command that sends it once more. */
export function BodyText({
  text,
  receiver,
}: {
  text: string;
  receiver: { url: string; signatureHeader: string };
}) {
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

/** Copies what stands before it. The script shows it, since without one it does nothing. */
function Copy({ what }: { what: string }) {
  return (
    <button class="button copy" type="button" data-copy hidden>
      Copy {what}
    </button>
  );
}
