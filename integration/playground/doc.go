// Playground is a page that runs: a ZooKeeper ensemble in memory (package locktest), and
// workers that take turns on a lock of go-zookeeper's zk.Lock and on one of Holdfast's to
// add to a counter, compiled to WebAssembly. It begins with a tour. Then its reader ends
// sessions, pauses, cuts off and kills holders, sets the clock of ZooKeeper's leader and
// elects others, and sees both side by side.
//
//	make playground
//
// builds it, serves it on 127.0.0.1 on a free port until a signal comes, and prints where.
// Nothing of it leaves the browser: all of what it shows happens there.
//
//	main.go   builds and serves
//	scene     the ensemble, the workers, what can happen to them, and the tour; plain Go,
//	          so that its tests run the tour in virtual time
//	wasm      hands the page what the scene shows, and the scene what is clicked on
//	page      what is seen; the program runs in a worker, so that a tab that is hidden does
//	          not stop it
//
// Its test looks at the page in headless Chromium, as HOLDFAST_BROWSER or the PATH names
// it. With HOLDFAST_PICTURES=folder it leaves pictures there. It is a module of its own, so
// that no other module depends on the browser's driver.
package main
