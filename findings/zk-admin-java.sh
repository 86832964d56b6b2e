#!/usr/bin/env bash
# ZooKeeper 3.9.6 (Debian forky) on Java 17: the server serves, and starts its admin server without a word,
# but each command that replies with JSON fails with status 500.
#
# Guess:  ZooKeeper 3.9 is for Java 8 and later, and its package demands no later one. If one of its
#         libraries needed a later Java, the server would not start, or its log would say so.
# Seen:   Debian's jackson-databind is compiled for Java 21 (class file version 65), its jackson-core and
#         ZooKeeper itself for Java 8. So what replies with JSON fails at its first use: "ruok", which
#         health checks ask. The stream of "snapshot" does not use it, and works.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

command -v curl >/dev/null || cannot "no curl on the PATH"
unpack forky 3.9.6
java=$(java -XshowSettings:properties -version 2>&1 | awk '$1 == "java.specification.version" { print $3 }')
[[ $java == 17 ]] || cannot "this is Java $java, not 17"
admin=$(free_port)
configure admin.enableServer=true admin.serverAddress=127.0.0.1 admin.serverPort="$admin"
start
got="four-letter word ruok: $(word ruok); errors in the log: $(grep -c UnsupportedClassVersionError "$work/server.log" || true)"$'\n'
for command in ruok 'snapshot?streaming=true'; do
	got+="$command: $(curl -sS --max-time 30 -o "$work/reply" -w '%{http_code}' -H 'Authorization: digest admin:secret' "http://127.0.0.1:$admin/commands/$command")"
	got+=" [$(grep -ao -m 1 'class file version 65' "$work/reply" | head -n 1 || true)]"$'\n'
done
expect 'four-letter word ruok: imok; errors in the log: 0
ruok: 500 [class file version 65]
snapshot?streaming=true: 200 []' "${got%$'\n'}"
