// Package zkserver runs real ZooKeeper servers for tests, benchmarks and the demo. It finds or
// installs ZooKeeper, starts servers on loopback, stops, kills and pauses them, ends sessions, and
// taps the connections of clients.
//
// If the tests of a package need a server, but do not kill or pause it or count its transactions,
// the package has
//
//	func TestMain(m *testing.M) { os.Exit(zkserver.Main(m)) }
//
// and its tests connect to [External]. That is the server in the environment variable
// HOLDFAST_ZOOKEEPER, or else one that Main started. Several packages may share it, so each test
// uses a root of its own. A test that kills or pauses a server or counts its transactions starts
// its own server with [ForTest], [Start] or [StartEnsemble].
//
// A server does not outlive the process that started it, unless that process is killed on a system
// other than Linux. It has its own process group, so Ctrl-C in the terminal reaches only this
// process, which then stops the server. It listens on 127.0.0.1 only and keeps its data in a
// temporary folder.
//
// The package needs a Unix system. It is safe for concurrent use.
package zkserver
