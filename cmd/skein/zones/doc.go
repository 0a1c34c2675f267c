// Package zones is the command about zones.
package zones
