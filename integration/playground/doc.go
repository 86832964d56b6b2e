// Playground is a page with a ZooKeeper ensemble in memory (package locktest), compiled to
// WebAssembly. Workers take turns on a lock of go-zookeeper's zk.Lock, and on a lock of Holdfast,
// to increment a counter. The page begins with a tour. Then the reader ends sessions, pauses, cuts
// off and kills holders, changes the clock of ZooKeeper's leader, elects another leader, and
// compares both locks.
//
//	make playground
//
// builds it, serves it on 127.0.0.1 on a free port until a signal, and prints the address.
// Everything happens in the browser.
//
//	main.go   builds and serves
//	scene     the ensemble, the workers, the faults and the tour; plain Go,
//	          so that its tests run the tour in virtual time
//	wasm      connects the page and the scene
//	page      the page; the program runs in a web worker, so that a hidden tab does
//	          not stop it
//
// The test of the page uses headless Chromium, from HOLDFAST_BROWSER or the PATH. With
// HOLDFAST_PICTURES=folder the test saves pictures there. Playground is a module of its own, so
// that no other module depends on the browser's driver.
package main
