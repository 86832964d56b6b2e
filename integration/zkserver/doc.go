// Package zkserver runs real ZooKeeper servers for tests, benchmarks and the
// demo: it finds or installs ZooKeeper, starts servers on loopback, stops,
// kills and pauses them, ends sessions, and taps the connections of clients.
//
// A package whose tests need a server, any server, says so once:
//
//	func TestMain(m *testing.M) { os.Exit(zkserver.Main(m)) }
//
// and its tests connect to [External]. That is the server of the environment
// variable HOLDFAST_ZOOKEEPER where one is named, or else one that Main started.
// Several packages may share it, so each test uses a root of its own. A test
// that kills, pauses or counts starts its own server with [ForTest], [Start] or
// [StartEnsemble].
//
// A server lives at most as long as the process that started it. It is in a
// process group of its own, so that Ctrl-C in the terminal reaches only us and
// we stop it; and on Linux the kernel kills it when we die without stopping it.
// It listens on 127.0.0.1 only and keeps its data in a temporary folder.
//
// The package needs a Unix system. Everything in it may be used concurrently.
package zkserver
