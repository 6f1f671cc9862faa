"""The control plane, as far as sandboxes need it."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.empty_pb2 import Empty
from grpclib import GRPCError, Status
from modal_proto import api_pb2

from tests.wire.modal.fleet import Fleet, Result, Sandbox, check_tags, invalid, missing, new_id
from tests.wire.modal.keys import Keys
from tests.wire.modal.workshop import BUILT_OF, Workshop

if TYPE_CHECKING:
    from grpclib.server import Stream

BUILDER: Final = "2025.06"
PAGE: Final = 50
"""Sandboxes on one page of a list."""
_FROM: Final = re.compile(r"FROM (\S+)")
_CREATE: Final = api_pb2.OBJECT_CREATION_TYPE_CREATE_IF_MISSING


class Spoken:
    """The methods that are spoken; `services.complete` makes a service of it."""

    def __init__(self, fleet: Fleet, keys: Keys, url: str) -> None:
        self._fleet = fleet
        self._workshop = Workshop(fleet)
        self._keys = keys
        self._url = url

    async def AuthTokenGet(self, stream: Stream[Any, Any]) -> None:
        await stream.recv_message()
        await stream.send_message(api_pb2.AuthTokenGetResponse(token=self._keys.session()))

    async def AppGetOrCreate(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        if asked.app_name not in self._fleet.apps:
            if asked.object_creation_type != _CREATE:
                raise missing("App", asked.app_name)
            self._fleet.apps[asked.app_name] = new_id("ap")
        await stream.send_message(api_pb2.AppGetOrCreateResponse(app_id=self._fleet.apps[asked.app_name]))

    async def EnvironmentGetOrCreate(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        settings = api_pb2.EnvironmentSettings(image_builder_version=BUILDER)
        metadata = api_pb2.EnvironmentMetadata(name=asked.deployment_name or "main", settings=settings)
        await stream.send_message(api_pb2.EnvironmentGetOrCreateResponse(environment_id="en-main", metadata=metadata))

    async def ImageGetOrCreate(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        commands = list(asked.image.dockerfile_commands)
        if told := [field.name for field, value in asked.image.ListFields() if str(value) and field.name not in BUILT_OF]:
            raise GRPCError(Status.UNIMPLEMENTED, f"this server builds no image with {', '.join(told)}")
        found = _FROM.fullmatch(commands[0]) if len(commands) == 1 else None
        if found is not None and not asked.image.base_images:
            image_id = await self._fleet.build(found[1])
        else:
            image_id = await self._workshop.build(commands, asked.image.context_mount_id, asked.image.base_images)
        error = self._fleet.images[image_id].error
        status = Result.GENERIC_STATUS_FAILURE if error else Result.GENERIC_STATUS_SUCCESS
        result = Result(status=status, exception=error)
        await stream.send_message(api_pb2.ImageGetOrCreateResponse(image_id=image_id, result=result, metadata=_builder()))

    async def MountBatchedCheckExistence(self, stream: Stream[Any, Any]) -> None:
        missing_ones = self._workshop.missing((await _asked(stream)).sha256_hex_hashes)
        await stream.send_message(api_pb2.MountBatchedCheckExistenceResponse(missing_sha256_hex_hashes=missing_ones))

    async def MountPutFile(self, stream: Stream[Any, Any]) -> None:
        self._workshop.put(await _asked(stream))
        await stream.send_message(api_pb2.MountPutFileResponse(exists=True))

    async def MountGetOrCreate(self, stream: Stream[Any, Any]) -> None:
        mount_id = self._workshop.mount(await _asked(stream))
        await stream.send_message(api_pb2.MountGetOrCreateResponse(mount_id=mount_id))

    async def ImageBuildChainGet(self, stream: Stream[Any, Any]) -> None:
        image_id = (await _asked(stream)).image_id
        step = api_pb2.ImageBuildStep(image_id=image_id, builder_app_id="ap-builder", builder_task_id=image_id)
        await stream.send_message(api_pb2.ImageBuildChainGetResponse(build_steps=[step]))

    async def AppFetchLogs(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        items = [api_pb2.TaskLogs(data=line) for line in self._workshop.log(asked.task_id)[-asked.limit :]]
        await stream.send_message(api_pb2.AppFetchLogsResponse(batches=[api_pb2.TaskLogsBatch(items=items)]))

    async def ImageFromId(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        self._fleet.image(asked.image_id)
        await stream.send_message(api_pb2.ImageFromIdResponse(image_id=asked.image_id, metadata=_builder()))

    async def ImageDelete(self, stream: Stream[Any, Any]) -> None:
        await self._fleet.delete_image((await _asked(stream)).image_id)
        await stream.send_message(Empty())

    async def SandboxCreateV2(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        if any(source.secret_id for source in asked.secret_sources):
            raise GRPCError(Status.UNIMPLEMENTED, "this server keeps no secrets: send them inline")
        env = {key: value for source in asked.secret_sources for key, value in source.env.contents.items()}
        tags = {tag.tag_name: tag.tag_value for tag in asked.tags}
        made = await self._fleet.create(asked.app_id, asked.definition, env, tags)
        await stream.send_message(
            api_pb2.SandboxCreateV2Response(
                sandbox_id=made.id,
                task_id=made.task_id,
                metadata=_metadata(made),
                command_router_access=api_pb2.CommandRouterAccess(url=self._url, jwt=self._keys.for_task(made.task_id)),
            )
        )

    async def SandboxGetFromNameV2(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        app_id = self._fleet.apps.get(asked.app_name)
        found = self._fleet.named(app_id, asked.sandbox_name, terminated=asked.include_terminated)
        if found is None:
            raise missing("Sandbox", asked.sandbox_name)
        await stream.send_message(api_pb2.SandboxGetFromNameResponse(sandbox_id=found.id, metadata=_metadata(found)))

    async def SandboxGetFromName(self, stream: Stream[Any, Any]) -> None:
        raise missing("Sandbox", (await _asked(stream)).sandbox_name)  # there are none of the first kind

    async def SandboxGetTaskIdV2(self, stream: Stream[Any, Any]) -> None:
        found = self._fleet.sandbox((await _asked(stream)).sandbox_id)
        answer = api_pb2.SandboxGetTaskIdResponse(task_id=found.task_id)
        if not found.runs:
            answer = api_pb2.SandboxGetTaskIdResponse(task_result=found.result)
        await stream.send_message(answer)

    async def SandboxGetCommandRouterAccess(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        found = self._fleet.sandbox(asked.sandbox_id) if asked.sandbox_id else self._fleet.task(asked.task_id)
        if not found.runs:
            raise GRPCError(Status.FAILED_PRECONDITION, f"Sandbox {found.id} has already finished")
        jwt = self._keys.for_task(found.task_id)
        await stream.send_message(api_pb2.SandboxGetCommandRouterAccessResponse(url=self._url, jwt=jwt))

    async def SandboxWaitV2(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        found = self._fleet.sandbox(asked.sandbox_id)
        try:
            async with asyncio.timeout(asked.timeout):
                await found.finished.wait()
        except TimeoutError:
            pass
        await stream.send_message(api_pb2.SandboxWaitResponse(result=found.result, metadata=_metadata(found)))

    async def SandboxTerminateV2(self, stream: Stream[Any, Any]) -> None:
        found = self._fleet.sandbox((await _asked(stream)).sandbox_id)
        before = None if found.runs else found.result
        await self._fleet.end(found, Result(status=Result.GENERIC_STATUS_TERMINATED))
        await stream.send_message(api_pb2.SandboxTerminateResponse(existing_result=before))

    async def SandboxTagsGetV2(self, stream: Stream[Any, Any]) -> None:
        found = self._fleet.sandbox((await _asked(stream)).sandbox_id)
        await stream.send_message(api_pb2.SandboxTagsGetResponse(tags=_tags(found)))

    async def SandboxTagsSetV2(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        check_tags((tag.tag_name, tag.tag_value) for tag in asked.tags)
        self._fleet.sandbox(asked.sandbox_id).tags = {tag.tag_name: tag.tag_value for tag in asked.tags}
        await stream.send_message(Empty())

    async def SandboxListV2(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        if not asked.app_id:
            raise invalid("this server lists the sandboxes of one app: give its id")
        wanted = {(tag.tag_name, tag.tag_value) for tag in asked.tags}
        before = asked.before_timestamp or float("inf")
        found = [
            one
            for one in self._fleet.sandboxes.values()
            if one.app_id == asked.app_id and (one.runs or asked.include_finished)
            if one.created_at < before and wanted <= one.tags.items()
        ]
        page = sorted(found, key=lambda one: one.created_at, reverse=True)[:PAGE]
        await stream.send_message(api_pb2.SandboxListResponse(sandboxes=[_info(one) for one in page]))

    async def DictGetOrCreate(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        dict_id = f"di-{asked.deployment_name}"
        if dict_id not in self._fleet.dicts:
            if asked.object_creation_type != _CREATE:
                raise missing("Dict", asked.deployment_name)
            self._fleet.dicts[dict_id] = {}
        metadata = api_pb2.DictMetadata(name=asked.deployment_name)
        await stream.send_message(api_pb2.DictGetOrCreateResponse(dict_id=dict_id, metadata=metadata))

    async def DictUpdate(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        held = self._dict(asked.dict_id)
        if asked.if_not_exists and any(one.key in held for one in asked.updates):
            return await stream.send_message(api_pb2.DictUpdateResponse(created=False))
        held.update((one.key, one.value) for one in asked.updates)
        return await stream.send_message(api_pb2.DictUpdateResponse(created=True))

    async def DictGet(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        value = self._dict(asked.dict_id).get(asked.key)
        await stream.send_message(api_pb2.DictGetResponse(found=value is not None, value=value))

    async def DictPop(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        value = self._dict(asked.dict_id).pop(asked.key, None)
        await stream.send_message(api_pb2.DictPopResponse(found=value is not None, value=value))

    async def DictContents(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        for key, value in list(self._dict(asked.dict_id).items()):
            await stream.send_message(api_pb2.DictEntry(key=key, value=value))

    def _dict(self, dict_id: str) -> dict[bytes, bytes]:
        if dict_id not in self._fleet.dicts:
            raise missing("Dict", dict_id)
        return self._fleet.dicts[dict_id]


async def _asked(stream: Stream[Any, Any]) -> Any:
    message = await stream.recv_message()
    if message is None:
        raise invalid("the request has no message")
    return message


def _builder() -> api_pb2.ImageMetadata:
    return api_pb2.ImageMetadata(image_builder_version=BUILDER)


def _metadata(sandbox: Sandbox) -> api_pb2.SandboxHandleMetadata:
    return api_pb2.SandboxHandleMetadata(result=sandbox.result, app_id=sandbox.app_id)


def _tags(sandbox: Sandbox) -> list[api_pb2.SandboxTag]:
    return [api_pb2.SandboxTag(tag_name=name, tag_value=value) for name, value in sandbox.tags.items()]


def _info(sandbox: Sandbox) -> api_pb2.SandboxInfo:
    task = api_pb2.TaskInfo(id=sandbox.task_id, sandbox_id=sandbox.id, result=sandbox.result)
    return api_pb2.SandboxInfo(
        id=sandbox.id,
        created_at=sandbox.created_at,
        task_info=task,
        app_id=sandbox.app_id,
        tags=_tags(sandbox),
        name=sandbox.name,
        metadata=_metadata(sandbox),
    )
