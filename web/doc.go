// Package web serves the page that shows a cluster: its files, which are in the
// program, and the part of the API that it needs, from any daemon that can be
// reached. Every answer forbids the browser to load anything from elsewhere and to
// run anything but the script that came with the page. Beside it there are plain pages,
// tables that need neither script nor picture.
//
// It keeps no state of the cluster, and decides nothing about who may do what: the
// daemon does, of whoever the requests reach it as. What is refused here is what no
// page of this program asks: other names of this host, other pages' requests, paths
// off a closed list.
//
// The sources of the page are in web/ui, web/build makes web/dist of them, which is
// committed. It starts no goroutine.
//
//	gate, code, err := web.NewGate(time.Now)
//	h, err := web.New(web.Options{API: transport, Names: []string{"127.0.0.1"}, Gate: gate})
package web
