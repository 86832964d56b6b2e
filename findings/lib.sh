# Shared by the scripts of this folder, which source it: a temp folder, Go programs, servers, and the
# verdict. Exit status: 0 the behaviour is as described, 1 it has changed, 2 it could not be tried.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
pids=() told=
finish() {
	local status=$?
	trap - EXIT
	for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
	wait 2>/dev/null
	rm -rf "$work"
	((status == 0)) || [[ -n $told ]] || {
		echo "$0: could not be tried: a step failed" >&2
		status=2
	}
	exit "$status"
}
trap finish EXIT
trap 'exit 2' INT TERM

cannot() {
	echo "$0: could not be tried: $*" >&2
	told=1
	exit 2
}

# expect WANT GOT ends the script unless the output is the one that was seen.
expect() {
	if [[ $1 != "$2" ]]; then
		echo "$0: the behaviour has CHANGED (- as described, + now):" >&2
		diff -U9 <(echo "$1") <(echo "$2") | tail -n +4 >&2 || true
		told=1
		exit 1
	fi
	echo "$2"
	echo "$0: as described"
}

# build MODULE@VERSION... builds the Go program on standard input as $work/program.
build() {
	mkdir "$work/go"
	cat >"$work/go/main.go"
	(
		cd "$work/go"
		export GOWORK=off GOFLAGS="-modcacherw -mod=mod"
		go mod init finding && go get "$@" && go build -o "$work/program" . || exit 1
		for m; do [[ "$(go list -m "${m%@*}")" == "${m/@/ }" ]] || exit 1; done
	) >"$work/build.log" 2>&1 || cannot "$(tail -5 "$work/build.log")"
}

# build_main builds a program as build does, with go-zookeeper, from the statements on standard input. They
# find a connection z to the servers that are the program's arguments.
build_main() {
	{
		cat <<'GO'
package main

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/go-zookeeper/zk"
)

func main() {
	z, _, err := zk.Connect(os.Args[1:], 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		log.Fatal(err)
	}
GO
		cat
		echo "}"
	} | build github.com/go-zookeeper/zk@v1.0.4
}

free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# unpack SUITE VERSION sets $home to ZooKeeper's server in Debian's suite, with its libraries.
unpack() {
	command -v java >/dev/null || cannot "no java on the PATH"
	home=$("$here/../integration/versions/servers.sh" "${FINDINGS_SERVERS:-$work/servers}" "$1" 2>"$work/unpack.log") || cannot "$(tail -5 "$work/unpack.log")"
	[[ ${home##*/} == "$2" ]] || cannot "Debian $1 has ZooKeeper ${home##*/}, not $2"
}

# configure [LINE...] writes the configuration of a server with a new folder for data, and sets $port.
configure() {
	port=$(free_port)
	mkdir -p "$work/data"
	printf '%s\n' "dataDir=$work/data" "clientPort=$port" clientPortAddress=127.0.0.1 tickTime=500 admin.enableServer=false '4lw.commands.whitelist=*' "$@" >"$work/zoo.cfg"
}

jvm=(java -Xmx160m -XX:+UseSerialGC -XX:TieredStopAtLevel=1)

# start [-Dname=value...] starts the server in $home, and waits until it serves.
start() {
	"${jvm[@]}" "$@" -cp "$home/*:$home/lib/*" org.apache.zookeeper.server.quorum.QuorumPeerMain "$work/zoo.cfg" >>"$work/server.log" 2>&1 &
	server=$!
	pids+=("$server")
	for ((i = 0; i < 600; i++)); do
		[[ $(word srvr) != *Mode:* ]] || return 0
		kill -0 "$server" 2>/dev/null || cannot "the server ended: $(tail -5 "$work/server.log")"
		sleep 0.1
	done
	cannot "the server does not answer"
}

# stop ends the server as a crash does.
stop() {
	kill -9 "$server"
	wait "$server" 2>/dev/null || true
}

# word NAME prints the server's answer to a four-letter word.
word() {
	{
		exec 3<>"/dev/tcp/127.0.0.1/$port" && printf %s "$1" >&3 && timeout 5 cat <&3
	} 2>/dev/null || true
}

# debian SUITE PACKAGE=VERSION... unpacks Debian's packages, without what they depend on, into $work/root.
debian() {
	command -v apt-get >/dev/null || cannot "no apt-get on the PATH"
	local mirror apt=$work/apt
	mirror=$(apt-get indextargets --format '$(ORIGIN) $(RELEASE) $(REPO_URI)' 2>/dev/null | awk '$1 == "Debian" && $2 !~ /-/ { print $3; exit }')
	[[ -n $mirror ]] || cannot "apt has no sources of Debian"
	rm -rf "$work/root"
	mkdir -p "$apt"/{lists/partial,cache/archives/partial,debs} "$work/root"
	: >"$apt/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$apt/sources.list"
	local get=(apt-get -qq -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o "Dir::State::Lists=$apt/lists" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache"
		-o APT::Sandbox::User= -o Debug::NoLocking=true)
	("${get[@]}" update && cd "$apt/debs" && "${get[@]}" download "${@:2}") >"$work/apt.log" 2>&1 || cannot "$(tail -5 "$work/apt.log")"
	for deb in "$apt"/debs/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
	rm -rf "$apt"
}

# etcd SUITE VERSION starts etcd of Debian's packages, and sets $etcdctl and its environment.
etcd() {
	debian "$1" "etcd-server=$2" "etcd-client=$2"
	local client peer
	client=$(free_port) peer=$(free_port)
	"$work/root/usr/bin/etcd" --data-dir "$(mktemp -d "$work/etcd.XXX")" --initial-cluster "default=http://127.0.0.1:$peer" \
		--listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
		--listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" >"$work/etcd.log" 2>&1 &
	pids+=($!)
	export ETCDCTL_API=3 ETCDCTL_ENDPOINTS=http://127.0.0.1:$client
	etcdctl=$work/root/usr/bin/etcdctl
	for ((i = 0; i < 100; i++)); do
		! "$etcdctl" endpoint health >/dev/null 2>&1 || return 0
		sleep 0.2
	done
	cannot "etcd does not answer: $(tail -3 "$work/etcd.log")"
}

# compile JARS compiles the Java class Program on standard input, with a class path of jars.
compile() {
	command -v javac >/dev/null || cannot "no javac on the PATH"
	classes=$work/classes:$1
	mkdir -p "$work/classes"
	cat >"$work/Program.java"
	javac -cp "$classes" -d "$work/classes" "$work/Program.java" >"$work/build.log" 2>&1 || cannot "$(tail -5 "$work/build.log")"
}

# compile_curator compiles a program as compile does, with Curator 5.4.0 of Debian bookworm and the ZooKeeper in $home.
compile_curator() {
	debian bookworm libcurator-{client,framework,recipes}-java=5.4.0-3 libguava-java=31.1-1
	compile "$home/*:$home/lib/*:$work/root/usr/share/java/*"
}

# follow ARGUMENT... starts the compiled program; hear [N] prints its next line, or N lines.
follow() {
	exec 4< <(exec "${jvm[@]}" -cp "$classes" Program "$@" 2>>"$work/program.log")
	program=$!
	pids+=("$program")
}

hear() {
	local line
	for ((i = 0; i < ${1:-1}; i++)); do
		read -r -t 90 line <&4 || cannot "the program says no more: $(tail -5 "$work/program.log")"
		echo "$line"
	done
}

# meanwhile ARGUMENT... has the stopped server serve on another port, which clients do not know, for one run of the
# compiled program with these arguments. Then it starts the server on its own port again.
meanwhile() {
	local own=$port
	port=$(free_port)
	sed -i "s/^clientPort=.*/clientPort=$port/" "$work/zoo.cfg"
	start
	"${jvm[@]}" -cp "$classes" Program "127.0.0.1:$port" "$@" >>"$work/meanwhile.log" 2>&1 || cannot "$(tail -5 "$work/meanwhile.log")"
	stop
	port=$own
	sed -i "s/^clientPort=.*/clientPort=$port/" "$work/zoo.cfg"
	start
}

# postgres SUITE MAJOR VERSION starts PostgreSQL of Debian's packages, as nobody if this is root, and sets
# $postgres to its process and $dsn. End it with SIGINT, so that it removes its shared memory.
postgres() {
	debian "$1" "postgresql-$2=$3"
	local as=() bin=$work/root/usr/lib/postgresql/$2/bin port
	port=$(free_port)
	mkdir "$work/postgres"
	if ((EUID == 0)); then
		as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
		chmod 711 "$work"
		chown 65534:65534 "$work/postgres"
	fi
	: >"$work/postgres.log"
	(cd / && "${as[@]}" "$bin/initdb" -D "$work/postgres" -U postgres -A trust --locale=C -N) >>"$work/postgres.log" 2>&1 || cannot "$(tail -5 "$work/postgres.log")"
	(cd / && exec "${as[@]}" "$bin/postgres" -D "$work/postgres" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c port="$port") >>"$work/postgres.log" 2>&1 &
	postgres=$!
	pids+=("$postgres")
	dsn="postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable"
	for ((i = 0; i < 300; i++)); do
		! grep -q 'ready to accept connections' "$work/postgres.log" || return 0
		sleep 0.1
	done
	cannot "PostgreSQL does not answer: $(tail -3 "$work/postgres.log")"
}
