#!/usr/bin/env bash
# Unpacks the ZooKeeper servers of Debian's suites into FOLDER, each with its libraries as a folder for
# ZOOKEEPER_HOME, and prints the folders' paths, one a line:
#
#   servers.sh FOLDER [SUITE...]    # without suites: 3.4.13, 3.8.0, 3.9.3 and 3.9.6 in November 2026
#
# It installs nothing. It needs apt, with Debian among its sources. A suite that was unpacked stays.
set -euo pipefail
into=$(mkdir -p "$1" && cd "$1" && pwd)
shift
(($#)) || set -- bullseye bookworm trixie forky

jars="zookeeper-jute commons-cli commons-io findbugs-annotations jackson-annotations jackson-core jackson-databind
jetty9-client jetty9-http jetty9-io jetty9-security jetty9-server jetty9-servlet jetty9-util jline log4j-1.2 metrics-core
netty-buffer netty-codec netty-common netty-handler netty-resolver netty-transport netty-transport-classes-epoll
netty-transport-native-epoll netty-transport-native-unix-common servlet-api slf4j-api slf4j-simple snappy-java"
packages='lib(zookeeper|commons-cli|commons-io|dropwizard-metrics|findbugs-annotations|jackson2-(core|annotations|databind)|jetty9|jline2?|log4j1.2|netty[a-z-]*|servlet-api|slf4j|snappy)-java'

mirror=$(apt-get indextargets --format '$(ORIGIN) $(RELEASE) $(REPO_URI)' 2>/dev/null | awk '$1 == "Debian" && $2 !~ /-/ { print $3; exit }')
[[ -n $mirror ]] || {
	echo "servers.sh: apt has no sources of Debian: name unpacked releases by VERSIONS=\"dir...\"" >&2
	exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# unpack SUITE puts the suite's server into $into, and writes its version into $into/SUITE.
unpack() {
	local w=$work/$1 list version
	mkdir -p "$w"/{lists/partial,cache/archives/partial,debs,root}
	: >"$w/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$w/sources.list"
	local apt=(apt-get -qq -o "Dir::Etc::sourcelist=$w/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o "Dir::State::Lists=$w/lists" -o "Dir::State::status=$w/status" -o "Dir::Cache=$w/cache"
		-o APT::Install-Recommends=false -o APT::Sandbox::User= -o Debug::NoLocking=true)
	"${apt[@]}" update
	mapfile -t list < <("${apt[@]}" -s install libzookeeper-java | awk '$1 == "Inst" { print $2 }' | grep -Ex "$packages")
	(cd "$w/debs" && "${apt[@]}" download "${list[@]}")
	for deb in "$w"/debs/*.deb; do dpkg-deb -x "$deb" "$w/root"; done
	local java=$w/root/usr/share/java
	version=$(cd "$java" && echo zookeeper-[0-9]*.jar)
	version=${version#zookeeper-} version=${version%.jar}
	mkdir -p "$w/home/lib"
	cp -L "$java/zookeeper-$version.jar" "$w/home/lib/"
	for jar in $jars; do [[ ! -e $java/$jar.jar ]] || cp -L "$java/$jar.jar" "$w/home/lib/"; done
	# The server's jar names jars of /usr/share/java in its manifest, which may be of another version. Those
	# of this folder come first in the class path.
	[[ ! -e $w/home/lib/zookeeper-jute.jar ]] || mv "$w/home/lib/zookeeper-jute.jar" "$w/home/"
	rm -rf "${into:?}/$version"
	mv "$w/home" "$into/$version"
	echo "$version" >"$into/$1"
}

for suite; do
	[[ -e $into/$suite && -d $into/$(<"$into/$suite") ]] || unpack "$suite" >&2
	echo "$into/$(<"$into/$suite")"
done
