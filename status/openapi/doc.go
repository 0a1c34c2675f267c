// Package openapi describes the routes of the API, and the types of package api that
// they take and give, in OpenAPI 3.1.
//
// Non-goals: it serves nothing and checks no request.
//
// It has no goroutines.
package openapi
