#!/bin/bash
# The package, the image and the unit on machines that have nothing else. By hand, as root, on a Debian with debootstrap, buildah, podman,
# runc and systemd-container, after "npm pack":
#
#   test/release/machines.sh compliance-mirror-0.1.0.tgz [bare] [image] [unit]
#
# Ends at the first thing that is wrong, and else says what each took. It reads from Debian's archive and from npm's registry only.
set -Eeuo pipefail
trap 'echo "failed at line $LINENO" >&2' ERR

ROOT=$(cd "$(dirname "$0")/../.." && pwd)
PACKAGE=$(realpath "$1")
shift
WANTED=${*:-bare image unit}
WORK=$(mktemp -d /var/tmp/machines-XXXXXX)
FLOOR=$(sed -n 's/.*"node": ">=\([0-9.]*\)".*/\1/p' "$ROOT/package.json")
# What this machine trusts, the machines made here trust, too.
TRUST=/etc/ssl/certs/ca-certificates.crt
SETTINGS=(HOME=/root TERM=dumb PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin NODE_EXTRA_CA_CERTS=$TRUST npm_config_cafile=$TRUST npm_config_update_notifier=false)
API_KEY=only-for-trying-out

finish() {
  jobs -p | xargs -r kill 2>/dev/null || true
  wait
  for name in mirror sandbox; do podman rm --force --volumes --time 0 "machines-$name" >/dev/null 2>&1 || true; done
  buildah rmi localhost/machines localhost/machines-base >/dev/null 2>&1 || true
  rm -rf --one-file-system "$WORK"
}
trap finish EXIT

say() { echo "$(date +%T) $*"; }
now() { date +%s.%N; }
since() { echo "scale=2; ($(now) - $1) / 1" | bc; }
# Tries for a minute.
eventually() { for _ in {1..120}; do "$@" >/dev/null 2>&1 && return; sleep 0.5; done; "$@"; }
# In the machine at $1, with its own processes and /tmp, and the network of this one.
within() {
  unshare --mount --pid --fork bash -c \
    'cd "$0"; mount -t proc proc proc; mount -t tmpfs tmpfs tmp; mount --rbind /dev dev; exec chroot . env -i "$@"' \
    "$1" "${SETTINGS[@]}" "${@:2}"
}

make_base() {
  debootstrap --variant=minbase --include=libatomic1,ca-certificates bookworm "$WORK/base" >"$WORK/debootstrap.log"
  local arch
  arch=$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')
  npm install --silent --no-save --prefix "$WORK/node" "node-linux-$arch@$FLOOR" npm@11
  cp "$WORK/node/node_modules/node-linux-$arch/bin/node" "$WORK/base/usr/local/bin/"
  mkdir -p "$WORK/base/usr/local/lib/node_modules"
  cp -a "$WORK/node/node_modules/npm" "$WORK/base/usr/local/lib/node_modules/"
  for name in npm npx; do ln -s "../lib/node_modules/npm/bin/$name-cli.js" "$WORK/base/usr/local/bin/$name"; done
  cp $TRUST "$WORK/base$TRUST"
  cp /etc/resolv.conf "$WORK/base/etc/"
  say "base: Debian bookworm (minbase), Node $(within "$WORK/base" node --version), npm $(within "$WORK/base" npm --version)"
}

bare() {
  cp -a "$WORK/base" "$WORK/bare"
  cp "$PACKAGE" "$WORK/bare/root/package.tgz"
  local began installed
  began=$(now)
  within "$WORK/bare" bash -c 'cd /root && npx --yes ./package.tgz demo --for 15s' |
    while read -r line; do echo "$(since "$began") $line"; done >"$WORK/demo.log"
  grep -q 'Equal, record by record' "$WORK/demo.log"
  installed=$(du -sb "$WORK"/bare/root/.npm/_npx/*/node_modules | cut -f1)
  say "bare: npx demo to equality; first answer after $(head -1 "$WORK/demo.log" | cut -d' ' -f1) s, $((installed / 1000000)) MB installed"
}

podman_run() {
  # Docker's --read-only gives no /tmp. Limits that podman may set, whatever this machine allows.
  podman --runtime runc run --read-only --read-only-tmpfs=false --cap-drop=ALL --security-opt=no-new-privileges \
    --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "$@" 2> >(grep -v healthcheck >&2 || true)
}

image() {
  local container began
  container=$(buildah from scratch)
  tar -C "$WORK/base" -cf - . >"$WORK/base.tar"
  buildah add --quiet "$container" "$WORK/base.tar" / >/dev/null
  buildah run --runtime runc "$container" useradd --uid 1000 --user-group --create-home node
  buildah config $(printf -- '--env %s ' "${SETTINGS[@]:2}") "$container"
  buildah commit --quiet --rm --format docker "$container" machines-base >/dev/null
  began=$(now)
  buildah build --pull-never --runtime runc --format docker --build-arg NODE_IMAGE=localhost/machines-base --tag machines "$ROOT" >"$WORK/build.log" 2>&1
  say "image: built in $(since "$began") s; $(buildah images --format '{{.Size}}' localhost/machines), its base $(buildah images --format '{{.Size}}' localhost/machines-base)"

  podman_run --rm --network none -v /data localhost/machines demo --for 15s | grep -q 'Equal, record by record'
  say 'image: its demo to equality, read-only, without capabilities, without a network'

  podman_run --detach --name machines-sandbox --network none --env SANDBOX_API_KEY=$API_KEY localhost/machines sandbox >/dev/null
  podman_run --detach --name machines-mirror --network container:machines-sandbox -v /data \
    --env COMPLIANCE_BASE_URL=http://127.0.0.1:9090/v1 --env COMPLIANCE_API_KEY=$API_KEY --env HOST=127.0.0.1 --env OPS_HOST=127.0.0.1 \
    --env "CREDENTIALS_KEY=$(openssl rand -base64 32)" --env SYNC_SETTLE_SECONDS=1 localhost/machines >/dev/null
  mirror() { podman exec machines-mirror node dist/src/main.js "$@"; }
  eventually mirror status
  mirror webhook register --url http://127.0.0.1:8080/webhooks >/dev/null
  mirror trigger policy.created --field name=Clean >/dev/null
  eventually eval "mirror records list policy --search Clean | grep -q sync:"
  mirror status --check >/dev/null
  podman healthcheck run machines-mirror
  began=$(now)
  podman stop --time 15 machines-mirror >/dev/null 2>&1
  say "image: a signed delivery verified, healthy as $(podman inspect --format '{{.Config.User}}' machines-mirror), stopped in $(since "$began") s with $(podman inspect --format '{{.State.ExitCode}}' machines-mirror)"
}

unit() {
  local machine=$WORK/unit home=/var/lib/compliance-mirror began boot init
  cp -a "$WORK/base" "$machine"
  within "$machine" bash -c 'apt-get update && apt-get install --yes --no-install-recommends systemd systemd-sysv dbus' >"$WORK/apt.log" 2>&1
  # As docs/running.md has it.
  cp "$PACKAGE" "$machine/root/package.tgz"
  within "$machine" npm install --silent --prefix /opt/compliance-mirror /root/package.tgz
  within "$machine" useradd --system --home-dir $home --shell /usr/sbin/nologin compliance-mirror
  within "$machine" install -d -m 700 -o compliance-mirror -g compliance-mirror $home
  cp "$machine/opt/compliance-mirror/node_modules/compliance-mirror/docs/compliance-mirror.service" "$machine/etc/systemd/system/"
  echo $API_KEY >"$machine/root/api-key"
  within "$machine" install -m 600 -o compliance-mirror /root/api-key $home/api-key

  systemd-nspawn --register=no --keep-unit --private-network --directory="$machine" --boot --console=pipe </dev/null >"$WORK/boot.log" 2>&1 &
  boot=$!
  eventually pgrep -P $boot
  init=$(pgrep -P $boot)
  inside() { nsenter --target "$init" --all env -i "${SETTINGS[@]}" "$@"; }
  mirror() { inside setpriv --reuid compliance-mirror --regid compliance-mirror --init-groups env -C $home HOME=$home /opt/compliance-mirror/node_modules/.bin/compliance-mirror "$@"; }
  of_unit() { inside systemctl show compliance-mirror --property "$1" --value; }
  eventually inside systemctl is-system-running
  inside systemd-run --quiet --unit=sandbox -E SANDBOX_API_KEY=$API_KEY /opt/compliance-mirror/node_modules/.bin/compliance-mirror sandbox
  eventually eval "inside journalctl -u sandbox | grep -q 'Page: '"
  inside bash -c "umask 077; printf 'COMPLIANCE_BASE_URL=http://127.0.0.1:9090/v1\nCOMPLIANCE_API_KEY_FILE=%s\n' $home/api-key >$home/.env; chown compliance-mirror $home/.env"
  mirror setup --url http://127.0.0.1:8080/webhooks --wait 10s --yes >"$WORK/setup.log"
  inside systemctl enable --quiet --now compliance-mirror
  eventually eval "mirror status | grep -q 'Service running'"
  mirror trigger policy.created --field name=Clean >/dev/null
  eventually eval "mirror records list policy --search Clean | grep -q sync:"
  began=$(now)
  inside bash -c "kill -9 $(of_unit MainPID)"
  eventually eval '[ "$(of_unit NRestarts)" = 1 ] && mirror status --check'
  say "unit: a signed delivery verified; in sync again $(since "$began") s after kill -9"
  began=$(now)
  inside systemctl stop compliance-mirror
  [ "$(of_unit Result)" = success ]
  say "unit: stopped in $(since "$began") s; $(inside systemd-analyze security --no-pager compliance-mirror | tail -1)"
  inside systemctl poweroff
  wait $boot
}

make_base
for machine in $WANTED; do $machine; done
