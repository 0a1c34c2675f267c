package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/skein-project/skein/internal/faketarget"
)

// calls has calls of gRPC answered by the service grpc.health.v1.Health, which knows of a service
// "shop", and all else by h.
func calls(h http.Handler) http.Handler {
	known := health.NewServer()
	known.SetServingStatus("shop", grpc_health_v1.HealthCheckResponse_SERVING)
	s := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, known)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			s.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to serve")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &http.Server{Addr: *listen, Handler: calls(faketarget.New()), ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	context.AfterFunc(ctx, func() { s.Close() }) //nolint:errcheck // it ends
	fmt.Fprintln(os.Stderr, "serving http://"+*listen+"/")
	if err := s.ListenAndServe(); err != http.ErrServerClosed { //nolint:errorlint // it is that very value
		fmt.Fprintln(os.Stderr, "loadtarget:", err)
		os.Exit(1)
	}
}
