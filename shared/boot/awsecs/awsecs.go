// Package awsecs makes the ECS client of a Lambda.
package awsecs

import (
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"github.com/pxhost/pxhost/shared/boot"
)

// New returns a client of the environment's ECS.
func New(env *boot.Env) *ecs.Client { return ecs.NewFromConfig(boot.AWS(env, "ECS")) }
