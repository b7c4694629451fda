#pragma once

/// \file
/// Everything that your own training loop needs. These three lines make it distributed:
///
///     auto world = lockstep::init(argc, argv);
///     lockstep::DistributedDataParallel ddp(model, world);
///     lockstep::DistributedSampler sampler(samples, world);

#include "lockstep/data_parallel.h"
#include "lockstep/ddp.h"
#include "lockstep/error.h"
#include "lockstep/gradient_hook.h"
#include "lockstep/main.h"
#include "lockstep/pipeline.h"
#include "lockstep/sampler.h"
#include "lockstep/sharded_optimizer.h"
#include "lockstep/sync_batch_norm.h"
#include "lockstep/world.h"
