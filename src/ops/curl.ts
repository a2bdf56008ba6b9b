/** One argument of a command may be so long on Linux, the quotes about it included. Bytes. */
const ARGUMENT_MAX_BYTES = 120_000;

/**
 * A command that delivers this body once more, with words where its signature stood: whoever has the secret can make another, and
 * no page shows it. Null: no command line can hold it. Pure.
 */
export function curlOf(
  body: string,
  { url, signatureHeader }: { url: string; signatureHeader: string },
): string | null {
  const quoted = quote(body);
  if (body.includes('\0') || Buffer.byteLength(quoted) > ARGUMENT_MAX_BYTES) return null;
  return [
    `curl -X POST ${quote(url)}`,
    `-H ${quote('content-type: application/json')}`,
    `-H ${quote(`${signatureHeader}: t=TIMESTAMP, v1=SIGNATURE`)}`,
    `--data-raw ${quoted}`,
  ].join(' \\\n  ');
}

/** For a shell: between single quotes nothing has a meaning but the quote that ends them. */
const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
