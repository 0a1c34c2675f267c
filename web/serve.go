package web

import (
	"net/http"
	"time"
)

// Server is one of h, for who may be anybody.
func Server(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10}
}
